import { type TProperties, type TSchema, Type } from "typebox";
import { lastEventIdHeader } from "./logs/event.ts";
import { type Operation, takesIdempotencyKey } from "./operation.ts";

/** Longer than any key that clients generate, and short enough for an index. */
const idempotencyKeyLengthMax = 255;

export const idempotencyHeader = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: idempotencyKeyLengthMax,
    description:
      "Any text that is new for this request, such as a UUID. A repeated request with the same key gets the first " +
      "response again and has no further effect, for at least 24 hours.",
  }),
);

const ifMatchHeader = Type.Optional(
  Type.String({ description: "ETag of the deployment as last read. If it has changed since, the server answers 412." }),
);

const ifNoneMatchHeader = Type.Optional(
  Type.String({
    description: "ETag of the previous response. If it has not changed, the server answers 304 without a body.",
  }),
);

/** Returns the schema of the request headers of an operation, without those for authentication. null: it takes none. */
export function requestHeadersOf(operation: Operation): TSchema | null {
  const headers: TProperties = {
    ...(takesIdempotencyKey(operation) && { "Idempotency-Key": idempotencyHeader }),
    ...(operation.takesIfMatch && { "If-Match": ifMatchHeader }),
    ...(operation.canStream && { "Last-Event-ID": lastEventIdHeader }),
    ...(operation.hasEtag && operation.verb === "GET" && { "If-None-Match": ifNoneMatchHeader }),
  };
  return Object.keys(headers).length === 0 ? null : Type.Object(headers);
}
