import { isDeepStrictEqual } from "node:util";
import type { Principal } from "../../auth/principal.ts";
import { type ApiError, errors } from "../../contract/error.ts";
import { agentProjectsIn } from "../../domain/agent-projects.ts";
import { dockerfileName, projectFileNames, usualConfigPath } from "../../domain/config-path.ts";
import type { ChangedDeployment, CurrentDeployment } from "../../domain/settings.ts";
import { resolveRef } from "../../integrations/git.ts";
import { gitAccess } from "../../integrations/git-access.ts";
import { GitFailure } from "../../integrations/git-failure.ts";
import { findFile } from "../../integrations/git-tree.ts";
import { abortable } from "../../integrations/outbound-fetch.ts";
import { type SealedResponse, saveResponse } from "../../store/tenants/idempotency-keys.ts";
import type { ApiDeps } from "../deps.ts";
import { callCodeHost, findOpenIntegration } from "../integrations/call-code-host.ts";

/** Time for reading the repository. Clients wait for 30 s, and the change must be written after the read. */
const repositoryTimeoutMs = 24_000;
/** Share of that time for resolving the ref. The file may use the rest, because some hosts send all files with it. */
const refTimeoutMs = 8_000;

/** How often a change is retried when the repository to read changes while it is read. */
const attemptsMax = 3;

/** Where revisions come from, with the config file that must exist there. */
interface RepositoryLocation {
  integrationId: string | null;
  repoUrl: string;
  ref: string;
  configPath: string;
}

/** Returns the change if its repository was read or stays the same; throws otherwise. */
export type Check = (current: CurrentDeployment, changed: ChangedDeployment) => ChangedDeployment;

interface Call<T> {
  principal: Principal;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
  responseRow(body: T): SealedResponse | null;
}

/**
 * Runs a change that may name another repository (contract 2.2). This server must be able to read that repository, and
 * the config file must exist at the tracked ref. Git must run outside a transaction, because the embedded database has
 * a single connection. So `change` runs, rolls back when it needs a repository that was not read, and runs again after
 * the read, on the deployment as it is then. Register the route with `savesResponse`: the transaction of the last run
 * saves the response.
 *
 * @param change Must be repeatable; returns the body of the response.
 * @throws ApiError 400 `invalidField` that names repo_url; 502 `codeHostFailed` when the host does not answer; errors
 *   of `change`.
 */
export async function changeWithRepositoryCheck<T>(
  deps: ApiDeps,
  call: Call<T>,
  change: (check: Check) => Promise<T>,
): Promise<T> {
  const { db } = deps;
  let deadline: AbortSignal | undefined;
  let read: RepositoryLocation | undefined;
  for (let attempt = 1; ; attempt++) {
    const check: Check = (current, changed) => {
      const location = newLocationOf(current, changed);
      if (location !== null && !isDeepStrictEqual(location, read)) throw new RepositoryNotRead(location);
      return changed;
    };
    try {
      return await db.atomically(async () => {
        const body = await change(check);
        const row = call.responseRow(body);
        if (row !== null) await saveResponse(db, row);
        return body;
      });
    } catch (error) {
      if (!(error instanceof RepositoryNotRead)) throw error;
      if (attempt > attemptsMax) throw changedTooOften();
      read = error.location;
    }
    deadline ??= AbortSignal.timeout(repositoryTimeoutMs);
    await checkRepository(deps, call.principal, read, AbortSignal.any([call.signal, deadline]));
  }
}

const changedTooOften = () =>
  errors.unavailable("The deployment changed while its repository was read. Try again in a moment.", 1);

/** Rolls back an attempt; never reaches the client. */
class RepositoryNotRead extends Error {
  readonly location: RepositoryLocation;
  constructor(location: RepositoryLocation) {
    super("This repository has not been read.");
    this.location = location;
  }
}

/** Returns the new repository; null when the deployment keeps its repository, readable or not. */
function newLocationOf(current: CurrentDeployment, changed: ChangedDeployment): RepositoryLocation | null {
  const { repo_url: repoUrl, integration_id: integrationId } = changed.sourceConfig;
  if (repoUrl === null || repoUrl === current.sourceConfig.repo_url) return null;
  const { repo_ref: ref, langgraph_config_path: configPath } = changed.sourceRevisionConfig;
  // A deployment with source github has had both since its creation.
  return { integrationId, repoUrl, ref: changed.trackedRef ?? ref ?? "", configPath: configPath ?? "" };
}

/** Reads a repository and its config file. @throws ApiError 400 or 502 when that fails. */
async function checkRepository(
  deps: ApiDeps,
  principal: Principal,
  location: RepositoryLocation,
  signal: AbortSignal,
): Promise<void> {
  const { repoUrl, ref, configPath } = location;
  const { allowLocalSources: allowLocal, allowPrivateNetwork } = deps.settings;
  const integration = await findOpenIntegration(deps, principal, location.integrationId);
  const find = async () => {
    const access = await gitAccess({ github: deps.github, allowPrivateNetwork }, { integration, repoUrl }, signal);
    const remote = { ...access, repoUrl, allowLocal, signal };
    const { commitSha } = await resolveRef({ ...remote, ref, timeoutMs: refTimeoutMs });
    return findFile({ ...remote, commitSha, file: configPath, timeoutMs: repositoryTimeoutMs });
  };
  const found = await callCodeHost(() =>
    abortable(find(), signal).catch((error) => {
      throw (error instanceof GitFailure && refusalOf(error)) || error;
    }),
  );
  if (found.isThere) return;
  // Without any configuration, the build recognizes the server from the files at the root.
  const atRoot = configPath === usualConfigPath ? found.files.filter((file) => rootNames.has(file)) : [];
  if (atRoot.length > 0 && agentProjectsIn(found.files).length === 0) return;
  throw configMissing(location, found.files, atRoot);
}

/** Returns the error for failures of the repository itself; null for failures of the connection to its host. */
function refusalOf({ reason, message }: GitFailure): ApiError | null {
  if (reason === "RefNotFound") return refused(`must be a repository that has the tracked ref. ${message}`);
  if (reason !== "AccessDenied" && reason !== "UrlRefused") return null;
  return refused(`must be a repository that this server can read. ${message}`);
}

const rootNames: ReadonlySet<string> = new Set(["pierhead.json", dockerfileName, ...projectFileNames]);

const shownMax = 10;

function configMissing(
  { ref, configPath }: RepositoryLocation,
  files: readonly string[],
  [atRoot]: readonly string[],
): ApiError {
  const others = agentProjectsIn(files).slice(0, shownMax);
  const hint =
    others.length === 0
      ? "Add it there first."
      : `There is ${others.map((other) => other.config_path).join(", ")}: send ${others.length === 1 ? "it" : "one of them"} as langgraph_config_path in this request.${atRoot === undefined ? "" : ` Send ${atRoot} to deploy the server at the root.`}`;
  return refused(`must be a repository that has the config file: there is no '${configPath}' at '${ref}'. ${hint}`);
}

const refused = (because: string) => errors.invalidField("source_config.repo_url", because);
