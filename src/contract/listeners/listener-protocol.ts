import { type Static, Type } from "typebox";
import { nullable, timestamp, uuid } from "../schema.ts";
import { ListenerLogLevel } from "./listener.ts";

/** Questions and small answers of `/dp/v1`; what is exchanged stands in `assignment.ts`. */

export const DesiredQuery = Type.Object({
  after: Type.Integer({ minimum: 0, default: 0, description: "The `rv` of the page before; 0 asks for everything." }),
  wait: Type.Number({ minimum: 0, maximum: 30, default: 0, description: "How long to wait for a change, seconds." }),
});
export type DesiredQuery = Static<typeof DesiredQuery>;

export const Enrolled = Type.Object({ listener_id: uuid(), listener_key: Type.String() });
export type Enrolled = Static<typeof Enrolled>;

export const SecretsQuery = Type.Object({ secret_set_id: uuid() });
export type SecretsQuery = Static<typeof SecretsQuery>;

export const Heartbeat = Type.Object({
  rv: Type.Integer({ description: "Newest resource version: ask when it is ahead." }),
  key_ends_at: Type.Optional(
    nullable(timestamp(), "When the key that was shown ends, because there is a newer one; null: it has no end."),
  ),
  drain: Type.Optional(
    Type.Boolean({ description: "End the session and change nothing until a new one is let in: 409 until then." }),
  ),
  log_level: Type.Optional(nullable(ListenerLogLevel, "Log at this level; null: at your own.")),
});
export type Heartbeat = Static<typeof Heartbeat>;
