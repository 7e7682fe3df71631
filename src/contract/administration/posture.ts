import { type Static, Type } from "typebox";
import { literals } from "../schema.ts";

export const PostureItem = Type.Object({
  name: literals([
    "local sources",
    "private network",
    "anonymous metrics",
    "webhook answers",
    "anonymous agents",
    "agents as the server's user",
    "forwarded headers",
  ]),
  setting: Type.String({ description: "Variable that changes it.", examples: ["PIERHEAD_ALLOW_LOCAL_SOURCES"] }),
  is_on: Type.Boolean(),
  because: Type.String({ description: "Why it is on or off.", examples: ["the default of a public server"] }),
});
export type PostureItem = Static<typeof PostureItem>;

/** Response of `GET /v2/admin/posture`: what this server allows because of where it can be reached from. */
export const Posture = Type.Object(
  {
    kind: literals(["local", "public"], {
      description: "`local`: only programs on this machine reach the server, so it has the defaults of a laptop.",
    }),
    because: Type.String({ examples: ["HOST is 0.0.0.0, which is not loopback"] }),
    items: Type.Array(PostureItem),
  },
  { $id: "Posture" },
);
export type Posture = Static<typeof Posture>;
