import { mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Principal } from "../../auth/principal.ts";
import { removeTree } from "../../base/remove-tree.ts";
import { type Held, Shares, shareRules } from "../../base/shares.ts";
import { describeApart } from "../../builds/detect/describe-apart.ts";
import { describeSource, type SourceDescription } from "../../builds/detect/describe-source.ts";
import { BuildFailure } from "../../builds/failure.ts";
import { listTemplates } from "../../builds/sources/templates.ts";
import type { Detection, DetectSource } from "../../contract/detections/detection.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { configPathProblem } from "../../domain/config-path.ts";
import { repoUrlProblem } from "../../domain/git-url.ts";
import { detectionArchiveBytesMax, detectionsMax } from "../../domain/limits.ts";
import { isValidRef, normalizeRef } from "../../domain/refs.ts";
import { defaultBranch, resolveRef } from "../../integrations/git.ts";
import { gitAccess } from "../../integrations/git-access.ts";
import { GitFailure } from "../../integrations/git-failure.ts";
import { fetchSmallFiles, type SmallFileLimits } from "../../integrations/git-small-files.ts";
import type { ApiDeps } from "../deps.ts";
import { type Api, route } from "../http/route.ts";
import { callCodeHost, findOpenIntegration } from "../integrations/call-code-host.ts";
import { drain, receiveFile } from "../uploads/receive-upload.ts";

const mib = 1024 * 1024;

/**
 * Fraction of the time of a detection that reading a repository may take. Describing it takes milliseconds, unless its files were made to
 * take longer. It gets all the time that reading has left, because its low priority makes it slow beside builds.
 */
const readingShare = 6 / 7;

/** What detection reads of a repository. Files above 256 KiB are not sources of a server. */
const repositoryLimits: SmallFileLimits = {
  fileBytesMax: 256 * 1024,
  filesMax: 5_000,
  depthMax: 6,
  packBytesMax: 128 * mib,
};

/** Begins the names of the temporary directories of detections. */
export const detectionPrefix = "pierhead-detection-";

const archiveLimits = {
  bytesMax: 128 * mib,
  entriesMax: 20_000,
  fileBytesMax: repositoryLimits.fileBytesMax,
};

/**
 * A detection changes nothing, so no response is saved for its Idempotency-Key: a retry reads the source again, and git must run
 * outside a transaction.
 */
const answers = { savesResponse: true };

/** Adds the routes that show what would be built from a source, before a deployment exists. */
export function addDetectionRoutes(api: Api): void {
  const running = new Shares(shareRules(detectionsMax, api.deps.settings.workspaceShare));
  addSourceRoute(api, running);
  addArchiveRoute(api, running);
}

function addSourceRoute(api: Api, running: Shares): void {
  const { templatesDir, buildTarget, detectionTimeoutMs } = api.deps.settings;

  const inTemplate = async (id: string, configPath: string | null) => {
    const known = await listTemplates(templatesDir);
    const template = known.find((one) => one.id === id);
    if (template === undefined)
      throw errors.templateUnknown(
        id,
        known.map((one) => one.id),
      );
    return shown(await describeSource(template.directory, configPath ?? template.configPath, buildTarget));
  };

  route(
    api,
    operations.detectSource,
    async ({ principal, body, signal }) => {
      const configPath = checkedConfigPath(body.config_path);
      const { template_id: templateId, repo_url: repoUrl } = body;
      const isOne = (templateId == null) !== (repoUrl == null);
      if (!isOne) throw errors.invalidField("repo_url", "or template_id is needed: send one of the two.");
      if (templateId != null) return inTemplate(templateId, configPath);
      return whileHeld(running, principal, async (directory) => {
        const endsAt = performance.now() + detectionTimeoutMs;
        const asked = { ...body, repo_url: repoUrl ?? "" };
        const at = await fetchRepository(api.deps, principal, asked, { directory, signal });
        const task = { directory, archive: null, configPath, target: buildTarget };
        const timeoutMs = Math.max(detectionTimeoutMs * (1 - readingShare), endsAt - performance.now());
        return { ...shown(await describeApart(task, { timeoutMs, signal })), ...at };
      });
    },
    answers,
  );
}

/** Adds a route in a separate scope, because it streams its body instead of buffering it. */
function addArchiveRoute(api: Api, running: Shares): void {
  const bytesMax = detectionArchiveBytesMax;
  api.server.register((scope, _options, done) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, body, done) => done(null, body));
    scope.addHook("onSend", async (request) => {
      // A refusal without a key must not wait for the body.
      if (request.principal !== null && !request.raw.readableEnded) await drain(request.raw, bytesMax);
    });
    route(
      { ...api, server: scope },
      operations.detectArchive,
      async ({ principal, query, request, signal }) => {
        const configPath = checkedConfigPath(query.config_path);
        if (Number(request.headers["content-length"] ?? 0) > bytesMax) throw errors.uploadTooLarge(bytesMax);
        return whileHeld(running, principal, async (directory) => {
          const source = path.join(directory, "source");
          const received = await receiveFile(request.raw, path.join(directory, "archive"), { bytesMax, signal });
          await mkdir(source);
          const archive = { file: received.path, limits: archiveLimits };
          const { buildTarget, detectionTimeoutMs } = api.deps.settings;
          const task = { directory: source, archive, configPath, target: buildTarget };
          const timeoutMs = detectionTimeoutMs * readingShare;
          return shown(await describeApart(task, { timeoutMs, signal }).catch(refuseArchive));
        });
      },
      answers,
    );
    done();
  });
}

/** Gives `work` an empty directory that only our own user can read, while it holds one of the server's detections. */
async function whileHeld<T>(
  running: Shares,
  principal: Principal,
  work: (directory: string) => Promise<T>,
): Promise<T> {
  const held = hold(running, principal);
  try {
    const directory = await mkdtemp(path.join(tmpdir(), detectionPrefix));
    try {
      return await work(directory);
    } finally {
      await removeTree(directory);
    }
  } finally {
    held.release();
  }
}

function checkedConfigPath(given: string | null | undefined): string | null {
  if (given == null || given === "") return null;
  const problem = configPathProblem(given);
  if (problem !== null) throw errors.invalidField("config_path", problem);
  return given;
}

/** @throws ApiError 429 when the workspace or the key holds its share of detections; 503 when none is left. */
function hold(running: Shares, { tenantId, keyId }: Principal): Held {
  const held = running.take({ workspaceId: tenantId, keyId });
  if ("release" in held) return held;
  if (held.limit === "total")
    throw errors.unavailable("This server looks into as many sources as it can. Try again in a few seconds.", 5);
  throw errors.shareExceeded("detections", held.limit, held.max);
}

/**
 * Fetches the small files of a repository.
 * @throws ApiError 400 for a repository or ref that cannot be read; 502 when its host does not answer.
 */
async function fetchRepository(
  deps: ApiDeps,
  principal: Principal,
  asked: DetectSource & { repo_url: string },
  { directory, signal: given }: { directory: string; signal: AbortSignal },
): Promise<Pick<Detection, "ref" | "commit_sha">> {
  const { settings, github } = deps;
  const { repo_url: repoUrl, integration_id: integrationId } = asked;
  const problem = repoUrlProblem(repoUrl, settings.allowLocalSources);
  if (problem !== null) throw errors.invalidField("repo_url", problem);
  const name = asked.ref == null ? null : normalizeRef(asked.ref);
  if (name !== null && !isValidRef(name)) throw errors.invalidField("ref", "must be a branch, tag or commit.");
  const integration = await findOpenIntegration(deps, principal, integrationId ?? null);
  if (integration === undefined) throw errors.integrationNotFound(integrationId ?? "");
  const timeoutMs = Math.round(settings.detectionTimeoutMs * readingShare);
  const signal = AbortSignal.any([given, AbortSignal.timeout(timeoutMs)]);
  return callCodeHost(async () => {
    try {
      const access = await gitAccess({ github, ...settings }, { integration, repoUrl }, signal);
      const { allowLocalSources: allowLocal } = settings;
      const remote = { ...access, repoUrl, allowLocal, signal, timeoutMs };
      const ref = name ?? (await defaultBranch(remote));
      const { commitSha } = await resolveRef({ ...remote, ref });
      await fetchSmallFiles({ ...remote, commitSha, directory, limits: repositoryLimits });
      return { ref, commit_sha: commitSha };
    } catch (error) {
      throw (error instanceof GitFailure && refusalOf(error)) || error;
    }
  });
}

/** Returns the error for failures of the repository itself; null for failures of the connection to its host. */
function refusalOf({ reason, message }: GitFailure) {
  if (reason === "RefNotFound") return errors.invalidField("ref", `must be a branch, tag or commit. ${message}`);
  if (reason === "TooLarge") return errors.invalidField("repo_url", `cannot be looked into. ${message}`);
  if (reason !== "AccessDenied" && reason !== "UrlRefused") return null;
  return errors.invalidField("repo_url", `must be a repository that this server can read. ${message}`);
}

function refuseArchive(error: unknown): never {
  if (error instanceof BuildFailure) throw errors.uploadBroken(error.message);
  throw error;
}

const shown = (source: SourceDescription): Detection => ({
  found: source.found,
  kind: source.kind,
  framework: source.framework,
  because: source.because,
  config_path: source.configPath,
  graphs: source.graphs,
  language: source.language,
  python_version: source.pythonVersion,
  node_version: source.nodeVersion,
  package_manager: source.packageManager,
  lock_file: source.lockFile,
  build_commands: source.buildCommands,
  start_command: source.startCommand,
  variables: source.variables,
  notes: source.notes,
  problem: source.problem,
  configs: source.configs,
  ref: null,
  commit_sha: null,
});
