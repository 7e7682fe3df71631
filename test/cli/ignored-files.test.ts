import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { listFiles } from "../../src/cli/source/list-files.ts";
import { findProject } from "../../src/cli/source/project.ts";
import { createIgnoreRules } from "../../src/domain/ignore-rules.ts";
import { createDirectory } from "./run-cli.ts";

const never = new AbortController().signal;
const git = (directory: string, ...args: string[]) =>
  execFileSync("git", ["-C", directory, "-c", "user.name=t", "-c", "user.email=t@example.invalid", ...args]);

test("keeps exceptions of .dockerignore and the files that the build reads", async () => {
  await using source = await createDirectory({
    ".dockerignore": "*\n!src/**\n!package.json\nsrc/**/*.md\n",
    ".env.example": "API_KEY=",
    "pierhead.json": '{"dockerfile": "Dockerfile.prod"}',
    "Dockerfile.prod": "FROM scratch",
    "package.json": "{}",
    "notes.txt": "x",
    "src/server.js": "1",
    "src/inner/more.js": "1",
    "src/inner/page.md": "x",
    "data/dump": "x",
  });
  const { root, buildFiles } = await findProject(source.directory, undefined);
  const expected = [
    ".dockerignore",
    ".env.example",
    "Dockerfile.prod",
    "package.json",
    "pierhead.json",
    "src/inner/more.js",
    "src/server.js",
  ];
  assert.deepEqual((await listFiles(root, never, { buildFiles })).files, expected);
  git(root, "init", "--quiet");
  assert.deepEqual((await listFiles(root, never, { buildFiles })).files, expected);

  // Without exceptions an excluded directory is not read, because it may belong to another user.
  await using closed = await createDirectory({
    ".dockerignore": "data\ndocker\n",
    "data/dump": "x",
    "docker/Dockerfile": "FROM scratch",
    "docker/notes": "x",
    "pierhead.json": '{"dockerfile": "docker/Dockerfile"}',
  });
  await chmod(path.join(closed.directory, "data"), 0);
  const own = await findProject(closed.directory, undefined);
  const { files } = await listFiles(own.root, never, own);
  await chmod(path.join(closed.directory, "data"), 0o755);
  assert.deepEqual(files, [".dockerignore", "docker/Dockerfile", "pierhead.json"]);
});

test("a .dockerignore above a project that excludes all of it is that of another image", async () => {
  await using source = await createDirectory({
    ".dockerignore": "*\n!server\n",
    "server/main.py": "1",
    "examples/chat/pierhead.json": '{"start": ["python", "agent.py"], "python": true}',
    "examples/chat/agent.py": "1",
  });
  const project = ["examples/chat/pierhead.json"];
  assert.ok(
    (await listFiles(source.directory, never, { buildFiles: project })).files.includes("examples/chat/agent.py"),
  );
  const atRoot = (await listFiles(source.directory, never, { buildFiles: ["pierhead.json"] })).files;
  assert.deepEqual(atRoot, ["server/main.py"]);
});

test("matches ignore patterns as gitignore(5) defines them", () => {
  const cases: [pattern: string, ignored: string[], kept: string[]][] = [
    ["foo", ["foo", "a/foo"], ["foobar", "a/foo.txt"]],
    ["/foo", ["foo"], ["a/foo"]],
    ["a/b", ["a/b"], ["x/a/b"]],
    ["**/b/c", ["b/c", "x/b/c", "x/y/b/c"], ["c"]],
    ["a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["z"]],
    ["a/**", ["a/b", "a/b/c"], ["b/a"]],
    ["*.js", ["x.js", "a/x.js"], ["x.jsx"]],
    ["f?o", ["foo", "fxo"], ["f/o", "fo"]],
    ["[ab].txt", ["a.txt"], ["c.txt"]],
    ["[!ab].txt", ["c.txt"], ["a.txt"]],
    ["\\#x", ["#x"], ["x"]],
    ["# comment", [], ["# comment"]],
    ["a.b+(c)", ["a.b+(c)"], ["axb+(c)"]],
    ["a*b*c", ["abc", "axbxbxc", "x/abbc"], ["ab", "acb", "abc/x"]],
    ["a/**/b/**/c", ["a/b/c", "a/x/b/y/b/z/c"], ["a/c", "a/b"]],
    ["**/**/b", ["b", "x/b", "x/y/b"], ["b/x"]],
    ["[z-a].txt", [], ["a.txt", "m.txt"]],
  ];
  for (const [pattern, ignored, kept] of cases) {
    const rules = createIgnoreRules();
    rules.add("", `${pattern}\n`, "gitignore");
    for (const file of ignored) assert.ok(rules.ignores(file, false), `${pattern} ignores ${file}`);
    for (const file of kept) assert.ok(!rules.ignores(file, false), `${pattern} keeps ${file}`);
  }
});

test("ignores the same files as git", async () => {
  const patterns = [
    "*.log",
    "!important.log",
    "/root-only",
    "dir/",
    "deep/**/leaf",
    "a?c",
    "[x-z]*",
    "**/any",
    "mid/dle",
  ];
  const paths = [
    "a.log",
    "important.log",
    "s/important.log",
    "root-only",
    "s/root-only",
    "dir/f",
    "s/dir/f",
    "dirx",
    "deep/leaf",
    "deep/1/2/leaf",
    "abc",
    "ac",
    "xylo",
    "s/zed",
    "s/t/any",
    "mid/dle",
    "s/mid/dle",
  ];
  await using source = await createDirectory({
    ".gitignore": patterns.join("\n"),
    ...Object.fromEntries(paths.map((file) => [file, "x"])),
  });
  const walked = (await listFiles(source.directory, never)).files;
  git(source.directory, "init", "--quiet");
  assert.deepEqual(walked, (await listFiles(source.directory, never)).files);
});
