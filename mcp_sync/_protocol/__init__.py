"""The protocol without I/O, threads and clocks.

- ``versions``: a row of traits for each revision; ``eras``: what depends on the revision, in one object;
  ``methods``: a row for each method; ``negotiation``: which revision is spoken;
- ``codec``: messages as bytes; ``kinds``: what a decoded message is; ``frames``: what a transport is handed;
  ``echoed``: what has to be sent back just as it came;
- ``headers``: what a header may hold, and those of the method; ``param_headers``: those of arguments;
- ``recovery``: what is sent again after a failure, and which stream is taken up;
- ``input_rounds``: requests for input, and the request that follows; ``forms``, ``form_defaults``,
  ``form_formats``, ``form_values``: the forms of an elicitation, and their answers;
- ``subscription``: what a server is asked to tell; ``schemas``: whether an output matches its schema;
- ``urls``, ``brief``, ``visible``: how what is foreign may be shown; ``striking``: secrets struck out of it.
"""
