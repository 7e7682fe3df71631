import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** A real git repository in a temporary directory, with a tiny agent server in it. */
export interface AgentRepository extends AsyncDisposable {
  /** As `repo_url`. */
  url: string;
  directory: string;
  /** Writes files (null deletes one) and commits; returns the commit. */
  commit(files: Record<string, string>, message?: string): Promise<string>;
  /** Creates a branch at the current commit. Later commits still go to the current branch. */
  branch(name: string): Promise<void>;
}

/** Returns the files of the smallest agent server: it answers `/ok`, reports its version, and can delay or stream an answer. */
export function nodeAgent(version: string): Record<string, string> {
  return {
    "pierhead.json": JSON.stringify({ start: ["node", "server.js"], health: "/ok" }),
    "server.js": `
const http = require("node:http");
const server = http.createServer((request, response) => {
  const url = new URL(request.url, "http://agent");
  if (url.pathname === "/ok") return response.end('{"ok":true}');
  if (url.pathname === "/env") return response.end(JSON.stringify(process.env));
  // The kernel may still accept connections while a process dies. Closing the socket first makes the order certain.
  if (url.pathname === "/exit") { server.close(); process.exit(3); }
  if (url.pathname === "/events") {
    response.writeHead(200, { "content-type": "text/event-stream" });
    let count = 0;
    const timer = setInterval(() => {
      response.write("data: " + ++count + "\\n\\n");
      if (count === Number(url.searchParams.get("count") ?? 5)) { clearInterval(timer); response.end(); }
    }, 100);
    return;
  }
  setTimeout(() => response.end(JSON.stringify({ version: ${JSON.stringify(version)}, pid: process.pid })), Number(url.searchParams.get("ms") ?? 0));
});
server.listen(process.env.PORT, "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
`,
  };
}

export async function createAgentRepository(
  files: Record<string, string> = nodeAgent("one"),
): Promise<AgentRepository> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-agent-"));
  const git = (...args: string[]) =>
    run("git", ["-C", directory, "-c", "user.name=test", "-c", "user.email=test@example.invalid", ...args]);
  await git("init", "--quiet", "--initial-branch=main");
  const commit = async (changed: Record<string, string>, message = "change") => {
    for (const [name, text] of Object.entries(changed)) {
      await mkdir(path.dirname(path.join(directory, name)), { recursive: true });
      await writeFile(path.join(directory, name), text);
    }
    await git("add", "--all");
    await git("commit", "--quiet", "--allow-empty", "--message", message);
    return (await git("rev-parse", "HEAD")).stdout.trim();
  };
  await commit(files);
  return {
    url: `file://${directory}`,
    directory,
    commit,
    branch: async (name) => void (await git("branch", name)),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
}
