import type { IncomingHttpHeaders } from "node:http";
import type { CodeHost } from "../contract/integrations/integration.ts";

/** Content of a message from a host: a branch or its pull requests that may have changed. */
export interface HostEvent {
  kind: "push" | "pull";
  /** All addresses of the repository. */
  urls: string[];
  branch: string;
  /** Commit of the branch after the push; null: unknown. */
  commitSha: string | null;
}

/**
 * Reads the relevant content of a message, as documented by each host. Ignores created and deleted branches, tags (contract 10.1),
 * and all other events that are neither a push nor a pull request.
 */
export function readHostEvents(host: CodeHost, headers: IncomingHttpHeaders, body: Buffer): HostEvent[] {
  const payload = readPayload(headers["content-type"], body);
  if (payload === null) return [];
  const name = (header: string) => String(headers[header] ?? "");
  switch (host) {
    case "github":
      return githubEvents(name("x-github-event"), payload);
    case "gitea":
      return githubEvents(name("x-gitea-event") || name("x-forgejo-event") || name("x-github-event"), payload);
    case "gitlab":
      return gitlabEvents(payload);
    case "bitbucket":
      return bitbucketEvents(name("x-event-key"), payload);
    case "git":
      return [];
  }
}

type Payload = Record<string, unknown>;

/** Parses the body. GitHub may send a form with the JSON in one field. */
function readPayload(contentType: string | undefined, body: Buffer): Payload | null {
  const isForm = contentType?.startsWith("application/x-www-form-urlencoded") === true;
  const text = isForm ? (new URLSearchParams(body.toString()).get("payload") ?? "") : body.toString();
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Payload) : null;
  } catch {
    return null;
  }
}

/** Gitea and Forgejo use the same format. */
function githubEvents(event: string, payload: Payload): HostEvent[] {
  const repository = part(payload, "repository");
  const urls = texts(repository["clone_url"], repository["html_url"], repository["ssh_url"]);
  if (event === "push") {
    return movedBranch(urls, { ref: payload["ref"], before: payload["before"], after: payload["after"] });
  }
  if (!event.startsWith("pull_request")) return [];
  return pulledInto(urls, part(part(payload, "pull_request"), "base")["ref"]);
}

function gitlabEvents(payload: Payload): HostEvent[] {
  const project = part(payload, "project");
  const urls = texts(project["git_http_url"], project["web_url"], project["git_ssh_url"]);
  if (payload["object_kind"] === "push") {
    return movedBranch(urls, { ref: payload["ref"], before: payload["before"], after: payload["after"] });
  }
  if (payload["object_kind"] !== "merge_request") return [];
  return pulledInto(urls, part(payload, "object_attributes")["target_branch"]);
}

/** Reads messages of Bitbucket Cloud and of Bitbucket Data Center, whose field names differ. */
function bitbucketEvents(event: string, payload: Payload): HostEvent[] {
  const repository = part(payload, "repository");
  const links = part(repository, "links");
  const clones = Array.isArray(links["clone"]) ? links["clone"].map((one) => (one as Payload | null)?.["href"]) : [];
  const urls = texts(part(links, "html")["href"], ...clones);
  if (event === "repo:push") {
    return list(part(payload, "push")["changes"]).flatMap((change) => {
      const [before, after] = [part(change, "old"), part(change, "new")];
      if (before["type"] !== "branch" || after["type"] !== "branch") return [];
      return movedBranch(urls, { ref: after["name"], after: part(after, "target")["hash"] });
    });
  }
  if (event === "repo:refs_changed") {
    return list(payload["changes"]).flatMap((change) => {
      const ref = part(change, "ref");
      if (change["type"] !== "UPDATE" || ref["type"] !== "BRANCH") return [];
      return movedBranch(urls, { ref: ref["id"], after: change["toHash"] });
    });
  }
  const pull = part(payload, "pullrequest");
  return pulledInto(urls, part(part(pull, "destination"), "branch")["name"]);
}

/** Commit id for a branch that did not exist before, or does not exist any more. */
const noCommit = /^0+$/;

function movedBranch(
  urls: string[],
  { ref, before, after }: { ref: unknown; before?: unknown; after: unknown },
): HostEvent[] {
  if (typeof ref !== "string" || typeof after !== "string") return [];
  if (ref.startsWith("refs/") && !ref.startsWith("refs/heads/")) return [];
  if (noCommit.test(after) || (typeof before === "string" && noCommit.test(before))) return [];
  const commitSha = /^[0-9a-f]{40}$/.test(after) ? after : null;
  return [{ kind: "push", urls, branch: ref.replace(/^refs\/heads\//, ""), commitSha }];
}

const pulledInto = (urls: string[], branch: unknown): HostEvent[] =>
  typeof branch === "string" ? [{ kind: "pull", urls, branch, commitSha: null }] : [];

function part(of: Payload, name: string): Payload {
  const value = of[name];
  return typeof value === "object" && value !== null ? (value as Payload) : {};
}

const list = (value: unknown): Payload[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === "object" && one !== null) : [];

const texts = (...values: unknown[]): string[] => values.filter((value) => typeof value === "string");
