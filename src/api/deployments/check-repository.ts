import { isDeepStrictEqual } from "node:util";
import type { Principal } from "../../auth/principal.ts";
import { type ApiError, errors } from "../../contract/error.ts";
import { agentProjectsIn } from "../../domain/agent-projects.ts";
import type { ChangedDeployment, CurrentDeployment } from "../../domain/settings.ts";
import { resolveRef } from "../../integrations/git.ts";
import { gitAccess } from "../../integrations/git-access.ts";
import { GitFailure } from "../../integrations/git-failure.ts";
import { findFile } from "../../integrations/git-tree.ts";
import { abortable } from "../../integrations/outbound-fetch.ts";
import { type SealedResponse, saveResponse } from "../../store/tenants/idempotency-keys.ts";
import type { ApiDeps } from "../deps.ts";
import { callCodeHost, findOpenIntegration } from "../integrations/call-code-host.ts";

/** Clients wait for 30 s, and what is read is written afterwards. */
const repositoryTimeoutMs = 24_000;
/** Of that; a host that is away is named. The file may take what is left, as some hosts send all files along. */
const refTimeoutMs = 8_000;

/** A deployment whose branch is set to another one while its repository is read has that one read as well. */
const attemptsMax = 3;

/** Where revisions come from, and what must be there. */
interface RepositoryLocation {
  integrationId: string | null;
  repoUrl: string;
  ref: string;
  configPath: string;
}

/** Gives back the change, when the repository that it leads to has been read or is the one it was. */
export type Check = (current: CurrentDeployment, changed: ChangedDeployment) => ChangedDeployment;

interface Call<T> {
  principal: Principal;
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal;
  responseRow(body: T): SealedResponse | null;
}

/**
 * Does a change that may name another repository (contract 2.2), which is read before: this server must be able to, and it
 * must have the config file at the tracked ref. Git runs while no transaction is open, as the embedded database has one
 * connection: `change` is tried, given up where it finds a repository that was not read, and tried again afterwards, on the
 * deployment as it is by then. Its route `keepsItself`: the answer is kept in the transaction of the last try.
 *
 * @param change To be repeatable; gives the answer's body.
 * @throws ApiError 400 `invalidField` that names repo_url; 502 `codeHostFailed` for a host that is away; what `change` throws.
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
  errors.unavailable("The deployment was changed while its repository was read. Try again in a moment.", 1);

/** Undoes the try. No refusal: nobody is told. */
class RepositoryNotRead extends Error {
  readonly location: RepositoryLocation;
  constructor(location: RepositoryLocation) {
    super("This repository has not been read.");
    this.location = location;
  }
}

/** null: it stays where it is, whether that can be read or not. */
function newLocationOf(current: CurrentDeployment, changed: ChangedDeployment): RepositoryLocation | null {
  const { repo_url: repoUrl, integration_id: integrationId } = changed.sourceConfig;
  if (repoUrl === null || repoUrl === current.sourceConfig.repo_url) return null;
  const { repo_ref: ref, langgraph_config_path: configPath } = changed.sourceRevisionConfig;
  // A github deployment has both from its creation on.
  return { integrationId, repoUrl, ref: changed.trackedRef ?? ref ?? "", configPath: configPath ?? "" };
}

/** @throws ApiError */
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
  if (!found.isThere) throw configMissing(location, found.files);
}

/** What is about the repository and not about the way to it. */
function refusalOf({ reason, message }: GitFailure): ApiError | null {
  if (reason === "RefNotFound") return refused(`must be a repository that has the tracked ref. ${message}`);
  if (reason !== "AccessDenied" && reason !== "UrlRefused") return null;
  return refused(`must be a repository that this server can read. ${message}`);
}

const shownMax = 10;

function configMissing({ ref, configPath }: RepositoryLocation, files: readonly string[]): ApiError {
  const others = agentProjectsIn(files).slice(0, shownMax);
  const hint =
    others.length === 0
      ? "Add it there first."
      : `There is ${others.map((other) => other.config_path).join(", ")}: send ${others.length === 1 ? "it" : "one of them"} as langgraph_config_path in this request.`;
  return refused(`must be a repository that has the config file: there is no '${configPath}' at '${ref}'. ${hint}`);
}

const refused = (because: string) => errors.invalidField("source_config.repo_url", because);
