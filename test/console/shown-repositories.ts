import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { gitHttpServer } from "../integrations/git-http-server.ts";

const run = promisify(execFile);

export interface ShownCommit {
  author: string;
  message: string;
  /** Contents by path. They stay in later commits. */
  files?: Record<string, string>;
}

/** A server without packages, so that its deploys take a second. */
export const plainServer: Record<string, string> = {
  "pierhead.json": JSON.stringify({ build: [["node", "build.js"]], start: ["node", "server.js"] }),
  "build.js": `console.log("checking types");\nconsole.log("3 files, 0 errors");\n`,
  "server.js": `import { createServer } from "node:http";

createServer((request, response) => response.end("ok")).listen(process.env.PORT);
console.log(JSON.stringify({ level: "info", message: "listening", port: Number(process.env.PORT) }));
process.on("SIGTERM", () => process.exit(0));
`,
  "package.json": JSON.stringify({ type: "module" }),
};

/** Serves git repositories of the owner `acme` over HTTP. */
export async function startRepositories() {
  const root = await mkdtemp(path.join(tmpdir(), "pierhead-repositories-"));
  const served = await gitHttpServer(root, null);
  const directoryOf = (name: string) => path.join(root, "acme", `${name}.git`);
  const git = (name: string, ...argv: string[]) => run("git", ["-C", directoryOf(name), ...argv]);
  return {
    urlOf: (name: string) => `${served.url}/acme/${name}.git`,
    /** Commits to a repository. The first commit creates it. */
    async commit(name: string, { author, message, files = {} }: ShownCommit): Promise<void> {
      await mkdir(directoryOf(name), { recursive: true });
      await git(name, "init", "--quiet", "--initial-branch=main");
      for (const [file, text] of Object.entries(files)) await writeFile(path.join(directoryOf(name), file), text);
      await git(name, "add", "--all");
      const email = `${author.split(" ", 1)[0]?.toLowerCase()}@example.org`;
      const identity = ["-c", `user.name=${author}`, "-c", `user.email=${email}`];
      await git(name, ...identity, "commit", "--quiet", "--allow-empty", "--message", message);
    },
    async [Symbol.asyncDispose]() {
      await served[Symbol.asyncDispose]();
      await rm(root, { recursive: true, force: true });
    },
  };
}
