import type { Artifact } from "../../contract/listeners/assignment.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import { failure } from "../../domain/failures.ts";
import type { RevisionRow } from "../../store/revisions/revisions.ts";
import type { StepDeps } from "../deps.ts";

/** Exact content of a revision, with its artifact where one exists already. */
export type Resolution =
  | { ok: true; commitSha: string | null; artifactKey: string | null; artifactId: string | null }
  | { ok: false; message: string; failure: Failure };

/** Starts the keys of images that users named. Keys of built artifacts are 64 hex digits. */
const imageKeyPrefix = "image:";
export const isImageKey = (key: string) => key.startsWith(imageKeyPrefix);

/** Resolves an image name to an exact image where the built-in listener runs it, and saves the image as an artifact. */
export async function resolveImage(deps: StepDeps, revision: RevisionRow, uri: string): Promise<Resolution> {
  const isBuiltin = revision.source_config.listener_id === null;
  if (isBuiltin && deps.settings.computeType === "process") {
    const message = `Image ${uri} needs a container engine, and this server runs agents as plain processes. Start it with PIERHEAD_COMPUTE=docker, or deploy from git, an upload or a template.`;
    return { ok: false, message, failure: failure("unsupported") };
  }
  const found =
    isBuiltin && deps.images !== null
      ? await deps.images.resolve(uri, revision.tenant_id)
      : { ok: true as const, uri, digest: uri.split("@")[1] ?? uri, keepsState: false };
  if (!found.ok) return { ...found, failure: failure("image_missing") };
  const { digest } = found;
  const rollout = found.keepsState ? "handover" : "rolling";
  const manifest: Artifact = { kind: "image", digest, uri: found.uri, health_path: "/ok", rollout };
  // A tag that is pinned by the id of its image may mean another image next time, so the digest is part of the key.
  const key = `${imageKeyPrefix}${found.uri}${found.uri.endsWith(digest) ? "" : `#${digest}`}`;
  const artifactId = await deps.store.saveArtifact(revision.tenant_id, key, manifest);
  return { ok: true, commitSha: null, artifactKey: key, artifactId };
}
