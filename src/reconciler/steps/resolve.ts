import { isDeepStrictEqual } from "node:util";
import type { BuildRequest } from "../../builds/build.ts";
import { artifactKey } from "../../builds/cache/artifact.ts";
import { isUsable } from "../../builds/image/saved-image.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import { failure } from "../../domain/failures.ts";
import { parseImageReference } from "../../domain/image-reference.ts";
import { publicVariables } from "../../domain/public-variables.ts";
import { reusedArtifactLine } from "../../domain/reused-artifact.ts";
import type { RevisionRow } from "../../store/revisions/revisions.ts";
import type { StepDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import { buildTargetOf } from "./build-target.ts";
import { checkDatabase, missingOfEngine } from "./databases.ts";
import { moveRevision } from "./move-revision.ts";
import { done, type Performed } from "./performed.ts";
import { type Resolution, resolveImage } from "./resolve-image.ts";
import { resolveSource } from "./resolve-source.ts";

/** Checks the database of a CREATING revision, resolves its source and moves it to QUEUED or CREATE_FAILED. */
export async function resolveRevision(
  deps: StepDeps,
  state: DeploymentState,
  { revisionId }: { revisionId: string },
  signal: AbortSignal,
): Promise<Performed> {
  const revision = await deps.store.readRevision(revisionId);
  if (revision === undefined) return done;
  const fail = (because: string, message: string, failure: Failure) =>
    moveRevision(deps, state, { revisionId, from: "CREATING", to: "CREATE_FAILED", because, message, failure });
  const refused = await checkDatabase(deps, revision, signal);
  if (refused !== null) {
    const { message, retryInMs } = refused;
    if (retryInMs !== null) return { kind: "later", retryInMs, because: message, isProblem: true };
    return fail("the database cannot be used", message, failure("database_unavailable"));
  }
  const lacking = await missingOfEngine(deps, revision);
  if (lacking !== null) return fail("the engine cannot run", lacking, failure("engine_unavailable"));
  const found = await resolveContent(deps, revision, signal);
  if (!found.ok) return fail("the source cannot be used", found.message, found.failure);
  const config = revision.source_revision_config;
  return moveRevision(deps, state, {
    revisionId,
    from: "CREATING",
    to: "QUEUED",
    because: "the source is resolved",
    set: {
      artifact_id: found.artifactId,
      artifact_key: found.artifactKey,
      // Holds until the agent server reports a version. Not every server does, and none in a cluster (contract 13.27).
      image_version: config.image_uri === null ? null : (parseImageReference(config.image_uri)?.tag ?? null),
      ...(found.commitSha === null ? {} : { source_revision_config: { ...config, repo_commit_sha: found.commitSha } }),
    },
  });
}

/** Turns a ref, upload, template or image into exact content. Changes only the build log and is safe to repeat. */
async function resolveContent(deps: StepDeps, revision: RevisionRow, signal: AbortSignal): Promise<Resolution> {
  const usable = await findUsableArtifact(deps, revision);
  if (usable !== null) {
    await logNothingToBuild(deps, revision);
    return { ok: true, commitSha: null, artifactKey: revision.artifact_key, artifactId: usable };
  }
  const { image_uri: imageUri } = revision.source_revision_config;
  if (imageUri !== null) return resolveImage(deps, revision, imageUri);
  const source = await resolveSource(deps, revision, { isFetched: false }, signal);
  if (!source.ok) return source;
  const wanted = await buildTargetOf(deps, revision);
  if (!wanted.ok) return wanted;
  const { target } = wanted;
  const engine = await engineOf(deps, revision);
  const build = {
    tenantId: revision.tenant_id,
    source: source.source,
    target,
    configPath: revision.source_revision_config.langgraph_config_path,
    installCommand: revision.source_config.install_command,
    buildCommand: revision.source_config.build_command,
    ...engine,
    ...(await variablesOf(deps, revision)),
  };
  const find = async (key: string) => ({ key, artifact: await deps.store.findArtifactByKey(revision.tenant_id, key) });
  const first = await find(artifactKey({ ...build, isDefaultKept: false }));
  // The default of a new deployment may have become files, on which one that serves from PostgreSQL has no threads.
  const isHiding = engine.isDefaultKept && first.artifact?.manifest.engine === "file";
  const { key, artifact } = isHiding ? await find(artifactKey(build)) : first;
  const isBuilt = artifact !== undefined && (await isUsable(artifact.manifest, target));
  if (isBuilt) await logNothingToBuild(deps, revision);
  const commitSha = source.source.kind === "git" ? source.source.commitSha : null;
  return { ok: true, commitSha, artifactKey: key, artifactId: isBuilt ? artifact.id : null };
}

/** Returns the engine that the deployment chose, or else the default of a configuration that names none. */
export async function engineOf(
  { store }: Pick<StepDeps, "store">,
  { deployment_id: id, source_config: config }: Pick<RevisionRow, "deployment_id" | "source_config">,
): Promise<Pick<BuildRequest, "engine" | "defaultEngine" | "isDefaultKept">> {
  // Settings of earlier versions have no engine, and `default` is never stored.
  const engine = config.engine === "default" ? null : (config.engine ?? null);
  const found = engine === null ? await store.readDefaultEngine(id) : null;
  return { engine, defaultEngine: found?.engine ?? null, isDefaultKept: found?.isServing ?? false };
}

/** Returns the variables of a revision that its build writes into the code for browsers. */
export async function variablesOf(
  { store }: Pick<StepDeps, "store">,
  { deployment_id: id, secret_set_id: setId }: Pick<RevisionRow, "deployment_id" | "secret_set_id">,
): Promise<Pick<BuildRequest, "variables">> {
  const variables = setId === null ? {} : publicVariables(await store.readSecrets(id, setId));
  return Object.keys(variables).length === 0 ? {} : { variables };
}

/**
 * Redeploy, rollback and a change of variables name an artifact. When its files are gone, or variables changed that its build wrote
 * into the code for browsers, the recorded source is built again.
 */
async function findUsableArtifact(deps: StepDeps, revision: RevisionRow): Promise<string | null> {
  if (revision.artifact_id === null || (await hasOtherPublicVariables(deps, revision))) return null;
  const artifact = await deps.store.findArtifact(revision.artifact_id);
  return artifact !== undefined && (await isUsable(artifact.manifest, deps.settings.buildTarget)) ? artifact.id : null;
}

/** Whether the revision that this one runs again was built with other variables for browsers. */
async function hasOtherPublicVariables(deps: StepDeps, revision: RevisionRow): Promise<boolean> {
  if (revision.redeploy_of === null || revision.source_revision_config.image_uri !== null) return false;
  const again = await deps.store.readRevision(revision.redeploy_of);
  if (again === undefined || again.secret_set_id === revision.secret_set_id) return false;
  return !isDeepStrictEqual(await variablesOf(deps, revision), await variablesOf(deps, again));
}

/** Writes a line to the build log of a revision without a build, so that its log explains why there was none. */
async function logNothingToBuild({ store }: StepDeps, revision: RevisionRow): Promise<void> {
  const entry = {
    deployment_id: revision.deployment_id,
    revision_id: revision.id,
    kind: "build",
    replica_id: null,
    stream: "pierhead",
    level: "INFO",
    logged_at: store.now(),
    message: reusedArtifactLine,
    line_key: `nothing to build for ${revision.id}`,
  } as const;
  await store.appendLog([entry]);
}
