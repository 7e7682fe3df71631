import { type Static, Type } from "typebox";
import { nullable, timestamp, uuid } from "../schema.ts";
import { ListenerLogLevel } from "./listener.ts";

/** Queries and small responses of `/dp/v1`. The main documents are in `assignment.ts`. */

export const DesiredQuery = Type.Object({
  after: Type.Integer({ minimum: 0, default: 0, description: "The `rv` of the previous page. 0 requests everything." }),
  wait: Type.Number({ minimum: 0, maximum: 30, default: 0, description: "Seconds to wait for a change." }),
});
export type DesiredQuery = Static<typeof DesiredQuery>;

export const Enrolled = Type.Object({ listener_id: uuid(), listener_key: Type.String() });
export type Enrolled = Static<typeof Enrolled>;

export const SecretsQuery = Type.Object({ secret_set_id: uuid() });
export type SecretsQuery = Static<typeof SecretsQuery>;

export const Heartbeat = Type.Object({
  rv: Type.Integer({ description: "Newest resource version. Request `desired` when it is ahead." }),
  key_ends_at: Type.Optional(
    nullable(timestamp(), "When the calling key ends, because it was replaced. null: it does not end."),
  ),
  drain: Type.Optional(
    Type.Boolean({ description: "End the session and change nothing until a new one is accepted. Until then: 409." }),
  ),
  log_level: Type.Optional(nullable(ListenerLogLevel, "Log at this level. null: use your own level.")),
});
export type Heartbeat = Static<typeof Heartbeat>;
