import { setTimeout as sleep } from "node:timers/promises";
import type { BuildSource } from "../../builds/build.ts";
import { findTemplate } from "../../builds/sources/templates.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import { failure, gitFailure } from "../../domain/failures.ts";
import { resolveRef } from "../../integrations/git.ts";
import { GitFailure } from "../../integrations/git-failure.ts";
import type { RevisionRow } from "../../store/revisions/revisions.ts";
import { openRemote } from "../code-hosts/git-remote.ts";
import type { StepDeps } from "../deps.ts";

type ResolvedSource = { ok: true; source: BuildSource } | { ok: false; message: string; failure: Failure };

/** Attempts, 1 s and 3 s apart, before a code host that does not answer fails the revision. */
const gitAttemptsMax = 3;
const gitTimeoutMs = 20_000;

/**
 * Returns the exact source of a revision. The build step calls it again.
 * @param use.isFetched the build fetches the source now, so the result carries a credential for it. Some credentials
 * are minted for each use, so none is minted without need.
 */
export async function resolveSource(
  deps: StepDeps,
  revision: RevisionRow,
  use: { isFetched: boolean },
  signal: AbortSignal,
): Promise<ResolvedSource> {
  switch (revision.source) {
    case "github":
      return resolveGit(deps, revision, use, signal);
    case "internal_source": {
      const objectPath = revision.source_revision_config.source_tarball_path ?? "";
      const upload = await deps.store.findUpload(revision.deployment_id, objectPath);
      if (upload === undefined || upload.sha256 === null) {
        const message = `The upload ${objectPath} does not exist. Upload the source again.`;
        return { ok: false, message, failure: failure("source_missing") };
      }
      const place = await deps.files.locateUpload(objectPath, deps.settings.buildTimeoutMs);
      return { ok: true, source: { kind: "tarball", place, sha256: upload.sha256 } };
    }
    case "internal_template": {
      const id = revision.source_config.template_id ?? "";
      const template = await findTemplate(deps.settings.templatesDir, id);
      if (template === undefined) {
        const message = `There is no template '${id}' on this server.`;
        return { ok: false, message, failure: failure("source_missing") };
      }
      return { ok: true, source: { kind: "template", directory: template.directory, digest: template.digest } };
    }
    default:
      return {
        ok: false,
        message: `Source '${revision.source}' needs an image_uri.`,
        failure: failure("image_missing"),
      };
  }
}

async function resolveGit(
  deps: StepDeps,
  revision: RevisionRow,
  { isFetched }: { isFetched: boolean },
  signal: AbortSignal,
): Promise<ResolvedSource> {
  const { repo_url: repoUrl, integration_id: integrationId } = revision.source_config;
  const { repo_ref: ref, repo_commit_sha: recorded } = revision.source_revision_config;
  if (repoUrl === null || ref === null) {
    return { ok: false, message: "repo_url and repo_ref are needed.", failure: failure("ref_missing") };
  }
  const { allowLocalSources: allowLocal, allowPrivateNetwork } = deps.settings;
  if (recorded !== null && (!isFetched || integrationId === null)) {
    const remote = { repoUrl, credential: null, allowLocal, allowPrivateNetwork };
    return { ok: true, source: { kind: "git", ...remote, commitSha: recorded } };
  }
  for (let attempt = 1; ; attempt++) {
    try {
      const repository = { tenantId: revision.tenant_id, integrationId, repoUrl };
      const found = await deps.outward.hold(async () => {
        const remote = await openRemote(deps, repository, signal);
        const commitSha = recorded ?? (await resolveRef({ ...remote, ref, signal, timeoutMs: gitTimeoutMs })).commitSha;
        return { ...remote, commitSha };
      }, revision.tenant_id);
      return { ok: true, source: { kind: "git", ...found } };
    } catch (error) {
      // Aborted because this server stops. The next server continues.
      signal.throwIfAborted();
      if (!(error instanceof GitFailure)) throw error;
      const isTransient = error.reason === "Unreachable" || error.reason === "Timeout";
      if (!isTransient || attempt === gitAttemptsMax) {
        return { ok: false, message: error.message, failure: gitFailure(error.reason) };
      }
      await sleep(attempt * 2_000 - 1_000, undefined, { signal });
    }
  }
}
