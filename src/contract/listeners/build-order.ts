import { type Static, Type } from "typebox";
import { literals, nullable, timestamp, uuid } from "../schema.ts";

/** Builds that a listener runs in its cluster. A listener without `image_registry` gets none. */

/** An image to build. It is wanted for as long as it is listed. */
export const BuildOrder = Type.Object({
  build_id: uuid("Attempt at a build. A new attempt has another id."),
  deployment_id: uuid(),
  tag: Type.String({ pattern: "^[0-9a-f]{64}$", description: "Tag of the image: equal sources have equal tags." }),
  dockerfile: Type.String({ description: "Path of the Dockerfile in the context." }),
  context_path: Type.String({
    description:
      "Where the control plane serves the context, a tar, relative to its address. It needs no key and expires.",
  }),
  timeout_s: Type.Integer({ description: "The build must end within this time." }),
  disk_bytes_max: Type.Integer(),
});
export type BuildOrder = Static<typeof BuildOrder>;

export const BuildOrders = Type.Object({ items: Type.Array(BuildOrder) });
export type BuildOrders = Static<typeof BuildOrders>;

export const BuildOrdersQuery = Type.Object({
  wait: Type.Number({ minimum: 0, maximum: 30, default: 0, description: "Seconds to wait until the list differs." }),
  known: Type.Optional(
    Type.String({
      maxLength: 4_000,
      description:
        "Comma-separated ids of the builds that the listener knows. More than 100: `sha256:` and the hex digest of the sorted ids, joined by commas.",
    }),
  ),
});
export type BuildOrdersQuery = Static<typeof BuildOrdersQuery>;

export const BuildPath = Type.Object({ build_id: uuid("From the list of builds.") });
export type BuildPath = Static<typeof BuildPath>;

/** The end of a build. */
export const BuildEnd = Type.Object({
  image: nullable(Type.String({ description: "`repository@sha256:…`; null: the build failed." })),
  reason: nullable(literals(["BuildFailed", "Timeout", "DiskFull", "BuilderFailed"])),
  message: Type.String({ maxLength: 16_384, description: "What happened and what to do next. Empty on success." }),
});
export type BuildEnd = Static<typeof BuildEnd>;

/**
 * Begins the message of a build whose context could not be downloaded, for example because a server ended meanwhile. The control plane
 * orders such a build again.
 */
export const contextUnread = "The cluster could not download the build context from the control plane";

export const BuildLogLine = Type.Object({
  key: Type.String({ maxLength: 256, description: "Unique per line and the same in every retry." }),
  timestamp: Type.String(),
  stream: literals(["stdout", "stderr", "pierhead"]),
  level: Type.String(),
  message: Type.String({ maxLength: 65_536 }),
});
export type BuildLogLine = Static<typeof BuildLogLine>;

export const BuildProgress = Type.Object({
  build_id: uuid("From the list of builds."),
  lines: Type.Array(BuildLogLine, { maxItems: 1_000 }),
  end: nullable(BuildEnd, "null: the build is still running."),
});
export type BuildProgress = Static<typeof BuildProgress>;

export const BuildProgressAnswer = Type.Object({
  is_wanted: Type.Boolean({ description: "False: the build was cancelled or replaced, or it has ended." }),
});
export type BuildProgressAnswer = Static<typeof BuildProgressAnswer>;

/** Query of the signed URL of a context. */
export const ContextQuery = Type.Object({
  expires_at: timestamp("The URL is refused after this time."),
  signature: Type.String({ minLength: 1, description: "The server's signature of the URL." }),
  tried: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 100,
      description: "Servers that were asked before and do not have the context.",
    }),
  ),
});
export type ContextQuery = Static<typeof ContextQuery>;
