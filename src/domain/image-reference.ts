import { errors } from "../contract/error.ts";

/** The parts of an image reference. */
export interface ImageReference {
  /** Host and port; null: the engine's default registry. */
  registry: string | null;
  repository: string;
  tag: string | null;
  digest: string | null;
}

/** Checks an image reference. @throws ApiError 400 `invalidField` for anything outside the docker reference grammar. */
export function checkImageUri(uri: string): void {
  if (parseImageReference(uri) === null) {
    const because = "must be a docker image reference, <registry>/<name>:<tag> or <registry>/<name>@sha256:<hex>.";
    throw errors.invalidField("source_revision_config.image_uri", because);
  }
}

const domainPart = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
const domain = `(?:${domainPart}(?:\\.${domainPart})*|\\[[0-9A-Fa-f:]+\\])(?::[0-9]+)?`;
const pathPart = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
const reference = new RegExp(
  `^(?:(${domain})/)?(${pathPart}(?:/${pathPart})*)(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@([a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-f]{32,}))?$`,
);

/** Parses the grammar of github.com/distribution/reference, where a name has at most 255 characters. Null: not a reference. */
export function parseImageReference(uri: string): ImageReference | null {
  if (uri.length > 255 + 1 + 128 + 1 + 256) return null;
  const [, host, path, tag, digest] = reference.exec(uri) ?? [];
  if (path === undefined) return null;
  // "library/agent" has no registry: a host has a dot, a port, capitals or is localhost.
  const isHost = host !== undefined && (/[.:[A-Z]/.test(host) || host === "localhost");
  if (host !== undefined && !isHost && !new RegExp(`^${pathPart}$`).test(host)) return null;
  const repository = host === undefined || isHost ? path : `${host}/${path}`;
  if (`${isHost ? `${host}/` : ""}${repository}`.length > 255) return null;
  if (digest?.startsWith("sha256:") && digest.length !== "sha256:".length + 64) return null;
  return { registry: isHost ? host : null, repository, tag: tag ?? null, digest: digest ?? null };
}
