"""A server that is a child process, spoken to over its standard input and output.

``target`` is what the user says about it; ``channel`` writes the requests, and ``reader`` reads the answers
(``lines`` cuts them, ``_duplex`` beside this package passes them on); ``process`` watches and ends the
process, and ``launch`` starts it; ``pipes`` are our ends of its standard streams; ``stderr`` keeps its last
words; ``masking`` keeps secrets out of what is shown of its command.
"""
