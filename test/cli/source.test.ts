import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod, link, mkdir, symlink, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { list } from "tar";
import { packArchive } from "../../src/cli/source/archive.ts";
import { findDefaultBranch, isGitUrl, repositoryName, withoutUser } from "../../src/cli/source/git-source.ts";
import { listFiles } from "../../src/cli/source/list-files.ts";
import { listProject } from "../../src/cli/source/list-project.ts";
import { findProject, nameFrom } from "../../src/cli/source/project.ts";
import { createDirectory } from "./run-cli.ts";

const never = new AbortController().signal;
const git = (directory: string, ...args: string[]) =>
  execFileSync("git", ["-C", directory, "-c", "user.name=t", "-c", "user.email=t@example.invalid", ...args]);

test("packs equal files into equal archives regardless of times, group permissions and location", async () => {
  const content = { "langgraph.json": "{}", "src/agent.ts": "export {}", "src/z/deep.ts": "1", "a b.txt": "blank" };
  await using one = await createDirectory(content);
  await using other = await createDirectory(content);
  await utimes(path.join(other.directory, "langgraph.json"), 1, 1);
  await chmod(path.join(other.directory, "langgraph.json"), 0o600);

  const names = (await listFiles(one.directory, never)).files;
  await using first = await packArchive(one.directory, names, never);
  await using second = await packArchive(other.directory, (await listFiles(other.directory, never)).files, never);

  assert.deepEqual(names, ["a b.txt", "langgraph.json", "src/agent.ts", "src/z/deep.ts"]);
  assert.equal(first.sha256, second.sha256);
  await writeFile(path.join(other.directory, "src/agent.ts"), "changed");
  await using third = await packArchive(other.directory, names, never);
  assert.notEqual(third.sha256, first.sha256);
});

test("packs links as copies and leaves out links to files outside of the source", async () => {
  await using outside = await createDirectory({ "secret.txt": "s" });
  await using source = await createDirectory({ "real.txt": "content", "@scope.txt": "at", "dir/inner.txt": "i" });
  const { directory } = source;
  await symlink("real.txt", path.join(directory, "alias.txt"));
  await symlink(path.join(outside.directory, "secret.txt"), path.join(directory, "leak.txt"));
  await symlink("dir", path.join(directory, "linked-dir"));
  await symlink("nowhere", path.join(directory, "broken"));
  await link(path.join(directory, "real.txt"), path.join(directory, "second-name.txt"));

  const { files, leftOut } = await listFiles(directory, never);
  await using archive = await packArchive(directory, files, never);

  const entries: [string, string, number][] = [];
  const parser = list({
    onReadEntry: (entry) => entries.push([entry.path.replace(/^\.\//, ""), entry.type, entry.size]),
  });
  parser.end(Buffer.from(await archive.blob.arrayBuffer()));
  assert.deepEqual(entries, [
    ["@scope.txt", "File", 2],
    ["alias.txt", "File", 7],
    ["dir/inner.txt", "File", 1],
    ["real.txt", "File", 7],
    ["second-name.txt", "File", 7],
  ]);
  assert.deepEqual(leftOut.toSorted(), ["broken", "leak.txt", "linked-dir"]);
});

test("packs tracked and new files of a repository and omits ignored and deleted ones", async () => {
  await using source = await createDirectory({
    ".gitignore": "*.log\n/out/\n",
    ".dockerignore": "docs\n",
    "agent/index.ts": "1",
    "agent/debug.log": "x",
    "out/a.js": "x",
    "docs/page.md": "x",
    "gone.txt": "x",
    "node_modules/p/index.js": "tracked by mistake",
    ".env": "KEY=1",
    "agent/.env.example": "KEY=",
  });
  const { directory } = source;
  git(directory, "init", "--quiet");
  git(directory, "add", "--force", "gone.txt", "node_modules", ".gitignore");
  git(directory, "commit", "--quiet", "-m", "x");
  git(directory, "rm", "--quiet", "--cached", "gone.txt");
  git(directory, "reset", "--quiet");
  await using empty = await createDirectory();
  execFileSync("mv", [path.join(directory, "gone.txt"), empty.directory]);
  await mkdir(path.join(directory, "nested"));
  git(path.join(directory, "nested"), "init", "--quiet");
  await writeFile(path.join(directory, "nested", "inner.txt"), "x");

  const whole = await listFiles(directory, never);
  assert.equal(whole.fromGit, true);
  assert.deepEqual(whole.files, [
    ".dockerignore",
    ".gitignore",
    "agent/.env.example",
    "agent/index.ts",
    "nested/inner.txt",
  ]);
  assert.deepEqual(whole.leftOut, [".env"]);

  // A subdirectory of the repository can be a source. An ignored one is walked.
  assert.deepEqual((await listFiles(path.join(directory, "agent"), never)).files, [".env.example", "index.ts"]);
  assert.deepEqual((await listFiles(path.join(directory, "out"), never)).files, ["a.js"]);
});

test("reports a submodule that is not checked out as left out", { timeout: 20_000 }, async () => {
  await using library = await createDirectory({ "index.ts": "1" });
  git(library.directory, "init", "--quiet");
  git(library.directory, "add", "index.ts");
  git(library.directory, "commit", "--quiet", "-m", "x");
  await using source = await createDirectory({ "agent.ts": "1" });
  const { directory } = source;
  git(directory, "init", "--quiet");
  git(directory, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library.directory, "libs/shared");
  const whole = await listFiles(directory, never);
  assert.deepEqual([whole.files, whole.leftOut], [[".gitmodules", "agent.ts", "libs/shared/index.ts"], []]);

  git(directory, "submodule", "--quiet", "deinit", "--force", "libs/shared");
  const { files, leftOut } = await listFiles(directory, AbortSignal.timeout(10_000));
  assert.deepEqual([files, leftOut], [[".gitmodules", "agent.ts"], ["libs/shared"]]);
  assert.deepEqual((await listFiles(path.join(directory, "libs/shared"), AbortSignal.timeout(10_000))).files, []);
});

test("excludes ignored files of the repository when a git hook deploys a directory", async (t) => {
  await using source = await createDirectory({
    ".gitignore": "*.key",
    "agent/index.ts": "1",
    "agent/own.key": "secret",
  });
  const { directory } = source;
  git(directory, "init", "--quiet");
  git(directory, "add", ".");
  t.after(() => {
    delete process.env["GIT_DIR"];
    delete process.env["GIT_INDEX_FILE"];
  });
  // As git sets these variables in a repository with several working trees.
  process.env["GIT_DIR"] = path.join(directory, ".git");
  process.env["GIT_INDEX_FILE"] = path.join(directory, ".git/index");
  const { files, fromGit } = await listFiles(path.join(directory, "agent"), never, { environment: process.env });
  assert.deepEqual([files, fromGit], [["index.ts"], true]);
});

const noSuchNames = process.platform === "linux" ? false : "file systems elsewhere take no such names";

test("reports a name with invalid UTF-8 as left out, in a repository and outside", { skip: noSuchNames }, async () => {
  await using source = await createDirectory({ "agent.ts": "1" });
  const named = (...bytes: number[]) => Buffer.concat([Buffer.from(`${source.directory}/`), Buffer.from(bytes)]);
  await writeFile(named(0x66, 0xe9), "1"); // "f" and an accented letter of Latin-1
  await mkdir(named(0x67, 0xe9));
  await writeFile(Buffer.concat([named(0x67, 0xe9), Buffer.from("/inner.txt")]), "1");
  const walked = await listFiles(source.directory, never);
  assert.deepEqual([walked.files, walked.leftOut.toSorted()], [["agent.ts"], ["f\uFFFD", "g\uFFFD"]]);
  git(source.directory, "init", "--quiet");
  const { files, leftOut } = await listFiles(source.directory, never);
  assert.deepEqual([files, leftOut.toSorted()], [["agent.ts"], ["f\uFFFD", "g\uFFFD/inner.txt"]]);
});

test("packs a tracked .env, because the user committed it", async () => {
  await using source = await createDirectory({ ".env": "KEY=1" });
  git(source.directory, "init", "--quiet");
  git(source.directory, "add", ".env");
  assert.deepEqual((await listFiles(source.directory, never)).files, [".env"]);
});

test("applies nested .gitignore files outside of a repository and omits tool directories", async () => {
  await using source = await createDirectory({
    ".gitignore": "build/\n*.tmp\n!keep.tmp\n",
    "a.py": "1",
    "build/x": "x",
    "keep.tmp": "k",
    "drop.tmp": "d",
    "pkg/.gitignore": "/local\n",
    "pkg/local": "x",
    "pkg/deep/local": "kept: the rule is tied to pkg",
    "node_modules/p/i.js": "x",
    "sub/__pycache__/m.pyc": "x",
    ".venv/bin/python": "x",
    ".env.local": "SECRET=1",
  });
  const { files, leftOut, fromGit } = await listFiles(source.directory, never);
  assert.equal(fromGit, false);
  assert.deepEqual(files, [".gitignore", "a.py", "keep.tmp", "pkg/.gitignore", "pkg/deep/local"]);
  assert.deepEqual(leftOut, [".env.local"]);
});

test("finds the project by its config and packs local packages next to it", async () => {
  await using plain = await createDirectory({ "My Agent/pierhead.json": '{"start": ["node"]}' });
  const own = await findProject(path.join(plain.directory, "My Agent"), undefined);
  assert.deepEqual(
    [own.root, own.configPath, own.name],
    [path.join(plain.directory, "My Agent"), "pierhead.json", "my-agent"],
  );
  const from = await findProject(plain.directory, "My Agent/pierhead.json");
  assert.deepEqual([from.root, from.configPath, from.name], [plain.directory, "My Agent/pierhead.json", "my-agent"]);

  await using mono = await createDirectory({
    "apps/agent/langgraph.json": JSON.stringify({ dependencies: [".", "../../libs/shared", "langchain"] }),
    "apps/agent/package.json": '{"name": "@team/support-bot"}',
    "apps/agent/.env": "A=1",
  });
  const project = await findProject(path.join(mono.directory, "apps/agent"), undefined);
  assert.deepEqual(
    [project.root, project.configPath, project.name],
    [mono.directory, "apps/agent/langgraph.json", "support-bot"],
  );
  assert.equal(project.envFile, path.join(mono.directory, "apps/agent/.env"));
});

test("refuses to pack the home directory for a path that leads too far up", async (t) => {
  await using home = await createDirectory({
    ".ssh/id_ed25519": "secret",
    "agents/one/langgraph.json": JSON.stringify({ dependencies: ["../../../shared"] }),
    "agents/two/langgraph.json": JSON.stringify({ dependencies: ["../shared"] }),
    "langgraph.json": "{}",
  });
  const before = process.env["HOME"];
  t.after(() => {
    process.env["HOME"] = before;
  });
  process.env["HOME"] = home.directory;
  const inside = (...parts: string[]) => path.join(home.directory, ...parts);
  await assert.rejects(findProject(inside("agents/one"), undefined), /All of .* would be packed/);
  await assert.rejects(findProject(inside("agents/one"), "/proc/nowhere/langgraph.json"), /There is no/);
  assert.equal((await findProject(inside("agents/two"), undefined)).root, inside("agents"));
  assert.equal((await findProject(inside(), undefined)).root, inside(), "an explicit directory is packed");
  const beside = { dependencies: ["../../shared"] };
  await writeFile(inside("agents/two/langgraph.json"), JSON.stringify(beside));
  await assert.rejects(findProject(inside("agents/two"), undefined), /All of .* would be packed/);
  git(home.directory, "init", "--quiet");
  assert.equal((await findProject(inside("agents/two"), undefined)).root, inside());
});

test("explains what to do without a config or with an invalid one", async () => {
  await using empty = await createDirectory();
  await assert.rejects(
    findProject(empty.directory, undefined),
    /There is no langgraph.json or pierhead.json .*no server was recognized\. The directory is empty\. .*git submodule/,
  );
  await using sample = await createDirectory({ "app.js": "app.listen(3000)" });
  await assert.rejects(findProject(sample.directory, undefined), { message: /No package\.json lists/, hints: [] });
  await using managed = await createDirectory({ "agent.json": "{}", "AGENTS.md": "" });
  await assert.rejects(findProject(managed.directory, undefined), /agent\.json describes .*`deepagents deploy`/);
  await assert.rejects(findProject(empty.directory, "x.json"), { exitCode: 2 });
  await using crew = await createDirectory({ "requirements.txt": "crewai", "main.py": "crew.kickoff()" });
  await assert.rejects(findProject(crew.directory, undefined), { message: /Add an application/, hints: [] });
  await using broken = await createDirectory({ "langgraph.json": "{" });
  await assert.rejects(findProject(broken.directory, undefined), /langgraph.json cannot be used/);
});

test("quotes git without the token when it cannot read a repository", async () => {
  const signal = new AbortController().signal;
  await assert.rejects(findDefaultBranch("file:///nowhere/at/all", process.env, signal), /git says: .*nowhere/);
  await assert.rejects(findDefaultBranch("http://token@127.0.0.1:1/x", process.env, signal), ({ message }: Error) => {
    assert.match(message, /git says: .*127\.0\.0\.1:1/);
    return !message.includes("token");
  });
});

test("parses deployment names and git addresses in common forms", () => {
  assert.equal(nameFrom("My_Agent 2!"), "my-agent-2");
  assert.equal(nameFrom("___"), "agent");
  for (const url of ["https://h/x/y.git", "ssh://git@h/x", "git@h:x/y.git", "file:///srv/y"])
    assert.ok(isGitUrl(url), url);
  for (const text of [".", "./x", "node-server", "C:\\agents\\x", "/srv/x"]) assert.ok(!isGitUrl(text), text);
  assert.equal(repositoryName("git@h:team/hello.git"), "hello");
  assert.equal(repositoryName("https://h/team/hello/"), "hello");
  assert.equal(withoutUser("https://token@h/x"), "https://h/x");
});

test("packs the workspace of a member that has no lock file of its own", async () => {
  await using source = await createDirectory({
    "package.json": '{"workspaces": ["apps/*"]}',
    "package-lock.json": "{}",
    "apps/web/package.json": '{"scripts": {"start": "node server.js"}}',
    "apps/web/server.js": "",
    "apps/own/package.json": '{"scripts": {"start": "node server.js"}}',
    "apps/own/package-lock.json": "{}",
    "py/pyproject.toml": '[tool.uv.workspace]\nmembers = ["packages/*"]\n',
    "py/packages/api/pyproject.toml": '[project]\ndependencies = ["fastapi"]\n',
    "py/packages/api/main.py": "app = FastAPI()",
    "py/packages/locked/pyproject.toml": "[project]\n[tool.uv.sources]\napi = { workspace = true }\n",
    "py/packages/locked/uv.lock": "",
    "py/packages/locked/main.py": "app = FastAPI()",
    "apps/graphs/package.json": "{}",
    "apps/graphs/research/langgraph.json": '{"dependencies": ["../"], "graphs": {"agent": "./agent.ts:agent"}}',
  });
  const rootOf = async (directory: string) => {
    const { root, configPath } = await findProject(path.join(source.directory, directory), undefined);
    return [path.relative(source.directory, root), configPath];
  };
  assert.deepEqual(await rootOf("apps/web"), ["", "apps/web/package.json"]);
  assert.deepEqual(await rootOf("apps/own"), ["apps/own", "package.json"]);
  assert.deepEqual(await rootOf("apps/graphs/research"), ["", "apps/graphs/research/langgraph.json"]);
  assert.deepEqual(await rootOf("py/packages/api"), ["py", "packages/api/pyproject.toml"]);
  assert.deepEqual(await rootOf("py/packages/locked"), ["py", "packages/locked/pyproject.toml"]);
});

test("names the projects below a directory that has none", async () => {
  await using source = await createDirectory({
    "agents/a/langgraph.json": "{}",
    "agents/a/pyproject.toml": "",
    "services/b/package.json": "{}",
    "docs/readme.md": "",
  });
  await assert.rejects(findProject(source.directory, undefined), {
    message: /These directories below it look like projects/,
    hints: ["pierhead deploy agents/a", "pierhead deploy services/b"],
  });
  await using workspace = await createDirectory({
    "package.json": '{"workspaces": ["apps/*"], "scripts": {"dev": "turbo run dev"}}',
    "apps/agent/langgraph.json": "{}",
  });
  await assert.rejects(findProject(workspace.directory, undefined), {
    message: /no start script .* These directories below it look like projects/,
    hints: ["pierhead deploy apps/agent"],
  });
});

test("names the projects below another directory as they are reached from here", async () => {
  await using source = await createDirectory({ "work/agents/a/langgraph.json": "{}", "home/x": "" });
  const [work, home] = [path.join(source.directory, "work"), path.join(source.directory, "home")];
  await assert.rejects(findProject(work, undefined, home), { hints: ["pierhead deploy ../work/agents/a"] });
});

test("names the projects below a monorepo's root that has no server", async () => {
  await using source = await createDirectory({ "package.json": "{}", "apps/agent/langgraph.json": "{}" });
  await assert.rejects(findProject(source.directory, undefined), {
    message: /no start script and no server file.*These directories below it look like projects/,
    hints: ["pierhead deploy apps/agent"],
  });
});

test("packs the directories above a Python project from which it installs packages", async () => {
  await using place = await createDirectory({
    "apps/agent/pyproject.toml":
      '[project]\nname = "agent"\n[tool.uv.sources]\nwords = { path = "../../libs/words", editable = true }\ngone = { path = "../../../../gone" }\n',
    "libs/words/pyproject.toml": '[tool.poetry.dependencies]\nletters = { path = "../../base/letters" }\n',
    "base/letters/pyproject.toml": "",
    "web/requirements.txt": "flask\n-e ../libs/words[extra]\n",
    "web/main.py": "app = Flask(__name__)",
    "apps/agent/main.py": "app = FastAPI()",
    "alone/pyproject.toml":
      '[tool.uv.sources]\n# words = { path = "../libs/words" }\nwords = { git = "https://a/b#c" } # path = "../libs/words"\n',
    "alone/main.py": "app = FastAPI()",
    "web/Dockerfile": "FROM scratch\n",
  });
  const rootOf = async (...parts: string[]) => {
    const { root, configPath } = await findProject(path.join(place.directory, ...parts), undefined);
    return [path.relative(place.directory, root), configPath];
  };
  assert.deepEqual(await rootOf("apps", "agent"), ["", "apps/agent/pyproject.toml"]);
  assert.deepEqual(await rootOf("web"), ["", "web/requirements.txt"]);
  const { root } = await findProject(path.join(place.directory, "web"), "Dockerfile");
  assert.equal(path.relative(place.directory, root), "web", "a Dockerfile copies files of its own directory");
  assert.deepEqual(await rootOf("alone"), ["alone", "pyproject.toml"], "comments name nothing");
});

test("packs of what lies outside its git repository only the directories that a project needs", async () => {
  await using place = await createDirectory({
    "agent/apps/web/pyproject.toml":
      '[tool.uv.sources]\nwords = { path = "../../../words" }\nown = { path = "../../libs/own" }\n',
    "agent/apps/web/main.py": "app = FastAPI()",
    "agent/libs/own/pyproject.toml": "",
    "words/pyproject.toml": "",
    "words/src/words.py": "",
    "diary/secret.txt": "",
  });
  git(path.join(place.directory, "agent"), "init", "--quiet");
  const project = await findProject(path.join(place.directory, "agent/apps/web"), undefined);
  assert.deepEqual([project.root, project.configPath], [place.directory, "agent/apps/web/pyproject.toml"]);
  const { files } = await listProject(project, never, undefined);
  assert.deepEqual(files, [
    "agent/apps/web/main.py",
    "agent/apps/web/pyproject.toml",
    "agent/libs/own/pyproject.toml",
    "words/pyproject.toml",
    "words/src/words.py",
  ]);
});

test("packs the directories above a JavaScript project that it links or whose settings it extends", async () => {
  await using place = await createDirectory({
    "apps/agent/package.json":
      '{"main": "server.js", "dependencies": {"words": "file:../../libs/words", "gone": "file:../../../gone"}}',
    "apps/agent/server.js": "app.listen(1)",
    "libs/words/package.json": "{}",
    "typed/package.json": '{"main": "server.js"}',
    "typed/server.js": "app.listen(1)",
    "typed/tsconfig.json": '{ // shared\n  "extends": ["../tsconfig.base.json", "@tsconfig/node22"] }',
    "clients/web/package.json": '{"main": "server.js"}',
    "clients/web/server.js": "app.listen(1)",
    "clients/web/tsconfig.json": '{"references": [{"path": "./tsconfig.app.json"}]}',
    "clients/web/tsconfig.app.json": '{"compilerOptions": {"paths": {"core/*": ["../../core/*"]}}}',
    "core/index.ts": "",
    "alone/package.json": '{"main": "server.js", "dependencies": {"words": "file:./words"}}',
    "alone/server.js": "app.listen(1)",
    "alone/tsconfig.json":
      '{"extends": "./tsconfig.build.json", "compilerOptions": {"outDir": "../core", "typeRoots": ["../node_modules/@types"]}, "exclude": ["../core", "../**/node_modules"]}',
    "node_modules/@types/a/index.d.ts": "",
    "broad/package.json": '{"main": "server.js"}',
    "broad/server.js": "app.listen(1)",
    "broad/tsconfig.json": '{"include": ["**/*.ts", "../**/*.ts"]}',
    "repository/.git/HEAD": "",
    "repository/app/package.json": '{"main": "server.js"}',
    "repository/app/server.js": "app.listen(1)",
    "repository/app/tsconfig.json": '{"include": ["../**/*.ts"]}',
  });
  const rootOf = async (name: string) => {
    const { root, configPath } = await findProject(path.join(place.directory, name), undefined);
    return [path.relative(place.directory, root), configPath];
  };
  assert.deepEqual(await rootOf("apps/agent"), ["", "apps/agent/package.json"]);
  assert.deepEqual(await rootOf("typed"), ["", "typed/package.json"]);
  assert.deepEqual(await rootOf("clients/web"), ["", "clients/web/package.json"]);
  assert.deepEqual(await rootOf("alone"), ["alone", "package.json"]);
  // The directory above may have all projects of the user, unless a repository ends it.
  assert.deepEqual(await rootOf("broad"), ["broad", "package.json"]);
  assert.deepEqual(await rootOf("repository/app"), ["repository", "app/package.json"]);
});
