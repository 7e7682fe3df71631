import { createHash } from "node:crypto";
import type { CodeHost } from "../contract/integrations/integration.ts";
import { repositoryPath } from "./github-pulls.ts";
import { callHost, type HostApi } from "./host-call.ts";

/** State of the revision of a commit, shown on the commit page. */
export interface CommitStatus {
  repoUrl: string;
  commitSha: string;
  /** Name of the deployment. It tells apart the statuses of several deployments of one commit. */
  name: string;
  state: "in_progress" | "success" | "failure" | "cancelled" | "skipped";
  /** URL that the host links to: the page of the deployment. */
  link: string;
  /** One line. */
  title: string;
  /** Markdown, with the last lines of the log after a failure. */
  text: string;
}

/** GitHub rejects longer texts instead of truncating them. Its limit is 65,535 characters. */
const textMax = 60_000;

/**
 * Creates or updates a check run of the GitHub App, the only form of status that can hold a log.
 * @returns The id of the check run. @throws HostFailure
 */
export async function putCheckRun(
  api: HostApi,
  status: CommitStatus,
  id: string | null,
  signal: AbortSignal,
): Promise<string> {
  const { commitSha, name, state, link, title, text } = status;
  const isOver = state !== "in_progress";
  const output = { title, summary: text.slice(0, textMax) };
  const body = {
    ...{ name: `pierhead/${name}`, details_url: link, status: isOver ? "completed" : "in_progress", output },
    ...(id === null && { head_sha: commitSha }),
    ...(isOver && { conclusion: state }),
  };
  const runs = `/repos/${repositoryPath(status.repoUrl)}/check-runs`;
  const asked =
    id === null ? { method: "POST", path: runs } : { method: "PATCH", path: `${runs}/${encodeURIComponent(id)}` };
  const answer = await callHost(api, { ...asked, body, signal });
  return String((answer.body as { id?: unknown } | null)?.id ?? id ?? "");
}

type State = CommitStatus["state"];
const words = (running: string, success: string, failure: string, cancelled: string): Record<State, string> => ({
  ...{ in_progress: running, success, failure, cancelled, skipped: cancelled },
});

const githubWords = words("pending", "success", "failure", "error");
const gitlabWords = words("running", "success", "failed", "canceled");
const bitbucketWords = words("INPROGRESS", "SUCCESSFUL", "FAILED", "STOPPED");

/** Maximum length of a description that all hosts show. */
const titleMax = 140;

/**
 * Reports a commit status with a stored token, to the API of the repository's host.
 * @throws HostFailure
 */
export async function putCommitStatus(
  access: { host: CodeHost; token: string; allowPrivateNetwork: boolean },
  status: CommitStatus,
  signal: AbortSignal,
): Promise<void> {
  const { commitSha: sha, link, state } = status;
  const name = `pierhead/${status.name}`;
  const description = status.title.slice(0, titleMax);
  const { origin } = new URL(status.repoUrl);
  const path = repositoryPath(status.repoUrl);
  const post = (url: string, headers: Record<string, string>, route: string, body: object) =>
    callHost(
      { url, headers, allowPrivateNetwork: access.allowPrivateNetwork },
      { method: "POST", path: route, body, signal },
    );
  const bearer = { authorization: `Bearer ${access.token}` };
  const asGithub = { state: githubWords[state], target_url: link, description, context: name };
  switch (access.host) {
    case "github": {
      const url = origin === "https://github.com" ? "https://api.github.com" : `${origin}/api/v3`;
      await post(url, bearer, `/repos/${path}/statuses/${sha}`, asGithub);
      return;
    }
    case "gitea":
      await post(`${origin}/api/v1`, bearer, `/repos/${path}/statuses/${sha}`, asGithub);
      return;
    case "gitlab": {
      const project = encodeURIComponent(decodeURIComponent(path));
      const body = { state: gitlabWords[state], target_url: link, description, name };
      await post(`${origin}/api/v4`, { "private-token": access.token }, `/projects/${project}/statuses/${sha}`, body);
      return;
    }
    case "bitbucket": {
      const body = { key: bitbucketKey(name), name, state: bitbucketWords[state], url: link, description };
      if (origin === "https://bitbucket.org") {
        await post("https://api.bitbucket.org/2.0", bearer, `/repositories/${path}/commit/${sha}/statuses/build`, body);
      } else await post(origin, bearer, `/rest/build-status/1.0/commits/${sha}`, body);
      return;
    }
    case "git":
      return;
  }
}

/**
 * Returns a key of at most 40 characters for Bitbucket, which replaces a status with the same key. Names with a common prefix, such
 * as those of one agent in several environments, must get different keys.
 */
function bitbucketKey(name: string): string {
  if (name.length <= 40) return name;
  return `${name.slice(0, 31)}-${createHash("sha256").update(name).digest("hex").slice(0, 8)}`;
}
