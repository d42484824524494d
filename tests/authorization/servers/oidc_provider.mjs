// An authorization server on node-oidc-provider: `oidc_provider.mjs INDEX.JS` binds a free port and prints it.
// INDEX.JS is that of the package. `/control` is for the test: GET tells the counters, POST takes
// `{"reset": true, "settings": {...}, "document": {...}}`. Everybody may log in, by the pages of the package.

import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const usual = { accessSeconds: 3600, requireNonce: false };
let settings = { ...usual };
let counters = {};
let document = null; // the client's metadata document (CIMD)
const DOCUMENT_URL = 'https://client.example/metadata.json';

const count = (what) => { counters[what] = (counters[what] ?? 0) + 1; };

function fetchDocument(url, options) {
  if (String(url) !== DOCUMENT_URL || document === null) throw new Error(`no fetch of ${url}`);
  count('document fetches');
  return new Response(JSON.stringify(document), { headers: { 'content-type': 'application/json' } });
}

const configuration = {
  clients: [{
    client_id: 'protected-server',
    client_secret: 'of-the-protected-server',
    grant_types: [],
    redirect_uris: [],
    response_types: [],
  }, {
    client_id: 'robot',
    client_secret: 'of-the-robot',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  }],
  clientBasedCORS: () => false,
  cookies: { keys: ['for tests only'] },
  features: {
    clientCredentials: { enabled: true },
    clientIdMetadataDocument: { enabled: true, ack: 'draft-02', cacheDuration: { min: 0, max: 0 } },
    deviceFlow: { enabled: true },
    devInteractions: { enabled: true },
    dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => settings.requireNonce },
    introspection: { enabled: true, allowedPolicy: (ctx, client) => client.clientId === 'protected-server' },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: 'notes notes:write',
        audience: resource,
        accessTokenFormat: 'opaque',
        accessTokenTTL: settings.accessSeconds,
      }),
    },
    revocation: { enabled: true },
    userinfo: { enabled: false },
  },
  fetch: fetchDocument,
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  pkce: { required: () => true },
  rotateRefreshToken: true,
  scopes: ['openid', 'offline_access', 'notes', 'notes:write'],
  ttl: { AccessToken: () => settings.accessSeconds, Session: 3600, Grant: 3600, Interaction: 600, IdToken: 600 },
};

async function control(request, response) {
  let body = '';
  for await (const chunk of request) body += chunk;
  const told = JSON.parse(body || '{}');
  if (told.reset) {
    counters = {};
    settings = { ...usual };
  }
  Object.assign(settings, told.settings);
  document = told.document ?? document;
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ counters }));
}

let serve = null;
const server = createServer((request, response) => {
  if (request.url === '/control') control(request, response);
  else serve(request, response);
});
server.listen(0, '127.0.0.1', async () => {
  const { port } = server.address();
  const { default: Provider } = await import(pathToFileURL(process.argv[2]));
  const provider = new Provider(`http://127.0.0.1:${port}`, configuration);
  provider.on('grant.success', (ctx) => count(ctx.oidc.params.grant_type));
  provider.on('grant.error', (ctx, error) => count(`refused: ${error.message}`));
  provider.on('grant.revoked', () => count('revoked grants'));
  provider.on('registration_create.success', () => count('registrations'));
  provider.on('server_error', (ctx, error) => console.error(error));
  serve = provider.callback();
  console.log(port);
});
