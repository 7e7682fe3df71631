-- additive
-- W3C Trace Context of the request, or the push, that asked for a revision: what is done for it belongs to that trace.
alter table revisions add column traceparent text;
