import { type TProperties, type TSchema, Type } from "typebox";
import { lastEventIdHeader } from "./logs/event.ts";
import { keepsAnswer, type Operation } from "./operation.ts";

/** Longer than any key that a client makes, short enough for an index. */
const idempotencyKeyLengthMax = 255;

export const idempotencyHeader = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: idempotencyKeyLengthMax,
    description:
      "Any text that is new for this request, such as a UUID. The same request sent again under it is answered as the " +
      "first time and has no further effect, for at least 24 hours.",
  }),
);

const ifMatchHeader = Type.Optional(
  Type.String({ description: "ETag of the deployment as it was read: refused with 412 if it is another one by now." }),
);

const ifNoneMatchHeader = Type.Optional(
  Type.String({ description: "ETag of the answer before: 304 without a body if it is still the same." }),
);

/** Request headers an operation takes beside those that say who is asking; null: none. */
export function requestHeadersOf(operation: Operation): TSchema | null {
  const headers: TProperties = {
    ...(keepsAnswer(operation) && { "Idempotency-Key": idempotencyHeader }),
    ...(operation.takesIfMatch && { "If-Match": ifMatchHeader }),
    ...(operation.canStream && { "Last-Event-ID": lastEventIdHeader }),
    ...(operation.hasEtag && operation.verb === "GET" && { "If-None-Match": ifNoneMatchHeader }),
  };
  return Object.keys(headers).length === 0 ? null : Type.Object(headers);
}
