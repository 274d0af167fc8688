-- Direct messages and files of a member, without a walk through everybody's: to it, and from it.
CREATE INDEX log_direct_to ON log (dest, place) WHERE kind IN ('dm', 'file');
CREATE INDEX log_direct_from ON log (sender, place) WHERE kind IN ('dm', 'file');
