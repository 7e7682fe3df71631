import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { BuildSource } from "../../builds/build.ts";
import { artifactKey } from "../../builds/cache/artifact.ts";
import { isUsable } from "../../builds/image/saved-image.ts";
import { findTemplate } from "../../builds/sources/templates.ts";
import type { Artifact } from "../../contract/listeners/assignment.ts";
import { resolveRef } from "../../integrations/git.ts";
import { GitFailure } from "../../integrations/git-failure.ts";
import { findArtifact, findArtifactByKey, saveArtifact } from "../../store/builds/artifacts.ts";
import { findFinishedUpload } from "../../store/builds/uploads.ts";
import { appendLogEntries } from "../../store/logs/log-entries.ts";
import type { RevisionRow } from "../../store/revisions/revisions.ts";
import { remoteOf } from "../code-hosts/git-remote.ts";
import type { ReconcilerDeps } from "../deps.ts";

/** What a revision turned out to mean: exact content, and the artifact of it when one is kept. */
export type Resolution =
  | { ok: true; commitSha: string | null; artifactKey: string | null; artifactId: string | null }
  | { ok: false; message: string };

/** A host that does not answer is asked this often, 1 s and 3 s apart, before the user is told. */
const gitAttemptsMax = 3;
const gitTimeoutMs = 20_000;

/** Turns ref, upload, template or image into exact content. Changes nothing but the build log; safe to repeat. */
export async function resolveRevision(
  deps: ReconcilerDeps,
  revision: RevisionRow,
  signal: AbortSignal,
): Promise<Resolution> {
  const kept = await keptArtifact(deps, revision);
  if (kept !== null) {
    await sayNothingToBuild(deps, revision);
    return { ok: true, commitSha: null, artifactKey: revision.artifact_key, artifactId: kept };
  }
  const { image_uri: imageUri } = revision.source_revision_config;
  if (imageUri !== null) return resolveImage(deps, revision, imageUri);
  const source = await resolveSource(deps, revision, { isFetched: false }, signal);
  if (!source.ok) return source;
  const key = artifactKey({
    tenantId: revision.tenant_id,
    source: source.source,
    target: deps.settings.buildTarget,
    configPath: revision.source_revision_config.langgraph_config_path,
    installCommand: revision.source_config.install_command,
    buildCommand: revision.source_config.build_command,
  });
  const artifact = await findArtifactByKey(deps.db, revision.tenant_id, key);
  const isThere = artifact !== undefined && (await isUsable(artifact.manifest, deps.settings.buildTarget));
  if (isThere) await sayNothingToBuild(deps, revision);
  const commitSha = source.source.kind === "git" ? source.source.commitSha : null;
  return { ok: true, commitSha, artifactKey: key, artifactId: isThere ? artifact.id : null };
}

/**
 * The exact source of a revision; used again when the build begins.
 * @param use.isFetched with the credential it takes to fetch it: one that is made for each use is not made in vain.
 */
export async function resolveSource(
  deps: ReconcilerDeps,
  revision: RevisionRow,
  use: { isFetched: boolean },
  signal: AbortSignal,
): Promise<SourceFound> {
  switch (revision.source) {
    case "github":
      return resolveGit(deps, revision, use, signal);
    case "internal_source": {
      const objectPath = revision.source_revision_config.source_tarball_path ?? "";
      const upload = await findFinishedUpload(deps.db, revision.deployment_id, objectPath);
      if (upload === undefined || upload.sha256 === null) {
        return { ok: false, message: `The upload ${objectPath} is not there. Upload the source again.` };
      }
      return {
        ok: true,
        source: { kind: "tarball", path: path.join(deps.settings.dataDir, objectPath), sha256: upload.sha256 },
      };
    }
    case "internal_template": {
      const id = revision.source_config.template_id ?? "";
      const template = await findTemplate(deps.settings.templatesDir, id);
      if (template === undefined) return { ok: false, message: `There is no template '${id}' on this server.` };
      return { ok: true, source: { kind: "template", directory: template.directory, digest: template.digest } };
    }
    default:
      return { ok: false, message: `Source '${revision.source}' needs an image_uri.` };
  }
}

type SourceFound = { ok: true; source: BuildSource } | { ok: false; message: string };

async function resolveGit(
  deps: ReconcilerDeps,
  revision: RevisionRow,
  { isFetched }: { isFetched: boolean },
  signal: AbortSignal,
): Promise<SourceFound> {
  const { repo_url: repoUrl, integration_id: integrationId } = revision.source_config;
  const { repo_ref: ref, repo_commit_sha: recorded } = revision.source_revision_config;
  if (repoUrl === null || ref === null) return { ok: false, message: "repo_url and repo_ref are needed." };
  const { allowLocalSources: allowLocal, allowPrivateNetwork } = deps.settings;
  if (recorded !== null && (!isFetched || integrationId === null)) {
    const open = { repoUrl, credential: null, allowLocal, allowPrivateNetwork };
    return { ok: true, source: { kind: "git", ...open, commitSha: recorded } };
  }
  for (let attempt = 1; ; attempt++) {
    try {
      const asked = { tenantId: revision.tenant_id, integrationId, repoUrl };
      const found = await deps.outward.hold(async () => {
        const remote = await remoteOf(deps, asked, signal);
        const commitSha = recorded ?? (await resolveRef({ ...remote, ref, signal, timeoutMs: gitTimeoutMs })).commitSha;
        return { ...remote, commitSha };
      });
      return { ok: true, source: { kind: "git", ...found } };
    } catch (error) {
      // Stopped with this server: the next one goes on.
      signal.throwIfAborted();
      if (!(error instanceof GitFailure)) throw error;
      const mayPass = error.reason === "Unreachable" || error.reason === "Timeout";
      if (!mayPass || attempt === gitAttemptsMax) return { ok: false, message: error.message };
      await sleep(attempt * 2_000 - 1_000, undefined, { signal });
    }
  }
}

/** Redeploy and rollback name an artifact; when its files are gone the recorded source is built again. */
async function keptArtifact(deps: ReconcilerDeps, revision: RevisionRow): Promise<string | null> {
  if (revision.artifact_id === null) return null;
  const artifact = await findArtifact(deps.db, revision.artifact_id);
  return artifact !== undefined && (await isUsable(artifact.manifest, deps.settings.buildTarget)) ? artifact.id : null;
}

/** A revision without a build has a build log all the same, for whoever asks why nothing was built. */
async function sayNothingToBuild({ db }: ReconcilerDeps, revision: RevisionRow): Promise<void> {
  const entry = {
    deployment_id: revision.deployment_id,
    revision_id: revision.id,
    kind: "build",
    replica_id: null,
    stream: "pierhead",
    level: "INFO",
    logged_at: db.now(),
    message: "This source was built before: its artifact is used again.",
    line_key: `nothing to build for ${revision.id}`,
  } as const;
  await appendLogEntries(db, [entry]);
}

/** Keys of images that were given; those of built artifacts are 64 hex digits. */
const imageKeyPrefix = "image:";
export const isImageKey = (key: string) => key.startsWith(imageKeyPrefix);

async function resolveImage(deps: ReconcilerDeps, revision: RevisionRow, uri: string): Promise<Resolution> {
  const isBuiltin = revision.source_config.listener_id === null;
  if (isBuiltin && deps.settings.computeType === "process") {
    const message = `Image ${uri} needs a container engine, and this server runs agents as plain processes. Start it with PIERHEAD_COMPUTE=docker, or deploy from git, an upload or a template.`;
    return { ok: false, message };
  }
  const found =
    isBuiltin && deps.images !== null
      ? await deps.images.resolve(uri, revision.tenant_id)
      : { ok: true as const, uri, digest: uri.split("@")[1] ?? uri, keepsState: false };
  if (!found.ok) return found;
  const { digest } = found;
  const rollout = found.keepsState ? "handover" : "rolling";
  const manifest: Artifact = { kind: "image", digest, uri: found.uri, health_path: "/ok", rollout };
  // A tag that was pinned by its image's id may mean another image next time.
  const key = `${imageKeyPrefix}${found.uri}${found.uri.endsWith(digest) ? "" : `#${digest}`}`;
  return {
    ok: true,
    commitSha: null,
    artifactKey: key,
    artifactId: await saveArtifact(deps.db, revision.tenant_id, key, manifest),
  };
}
