import { createHash } from "node:crypto";
import type { CodeHost } from "../contract/integrations/integration.ts";
import { repositoryPath } from "./github-pulls.ts";
import { callHost, type HostApi } from "./host-call.ts";

/** How the revision of a commit goes, for the people who look at the commit. */
export interface CommitStatus {
  repoUrl: string;
  commitSha: string;
  /** Of the deployment: a commit may be deployed by several. */
  name: string;
  state: "in_progress" | "success" | "failure" | "cancelled" | "skipped";
  /** Of the deployment, for people. */
  link: string;
  /** One line. */
  title: string;
  /** With the last lines of the log, if it failed; Markdown. */
  text: string;
}

/** GitHub cuts nothing off: it refuses. 65,535 characters are its limit. */
const textMax = 60_000;

/**
 * A check run of the GitHub App: the only form that has room for a log.
 * @returns its id. @throws HostFailure
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

/** What hosts show of a description. */
const titleMax = 140;

/**
 * A commit status with a stored token, at the API that belongs to the repository's address.
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
 * Bitbucket replaces the status of a commit that has the same key, and takes 40 characters: names that begin alike, as
 * those of one agent in several environments, must not become one.
 */
function bitbucketKey(name: string): string {
  if (name.length <= 40) return name;
  return `${name.slice(0, 31)}-${createHash("sha256").update(name).digest("hex").slice(0, 8)}`;
}
