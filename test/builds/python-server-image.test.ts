import assert from "node:assert/strict";
import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { readProject } from "../../src/builds/detect/project.ts";
import { contextExtra } from "../../src/builds/image/python-image.ts";
import { pythonServerInstructions } from "../../src/builds/image/python-server-image.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { type Files, scratch, writeFiles } from "./fixtures.ts";

async function dockerfileOf(files: Files): Promise<string> {
  await using place = await scratch();
  const sourceDir = path.join(place.dir, "source");
  await writeFiles(sourceDir, files);
  return await dockerfileIn(sourceDir, place);
}

async function dockerfileIn(sourceDir: string, place: { dir: string }): Promise<string> {
  await mkdir(path.join(place.dir, contextExtra));
  const project = await readProject(sourceDir, null, { nodeMajor: 24, target: "image" });
  assert.ok(project.kind === "command" && project.python !== null);
  const { signal } = new AbortController();
  const context = { sourceDir, cacheDir: place.dir, env: {}, log: new BuildLog(() => {}), signal };
  const target = { installationId: "i", nodeImage: "node", pythonImage: "python:{version}" };
  const server = { ...project, python: project.python };
  const instructions = await pythonServerInstructions(target, {
    project: server,
    build: [],
    context,
    label: "LABEL a=b",
  });
  // The plan of the installation is JSON in the JSON of an instruction.
  return instructions.map(({ text }) => text.replaceAll('\\"', '"')).join("\n");
}

test("puts no file of the server into an image that a link of the source leads to", async () => {
  await using place = await scratch();
  const sourceDir = path.join(place.dir, "source");
  await writeFiles(sourceDir, { Pipfile: '[packages]\nfastapi = "*"\n', "main.py": "app = FastAPI()\n" });
  await writeFiles(place.dir, { "of-another.json": '{"default": {"secret-package": {"version": "==1"}}}' });
  await symlink("../of-another.json", path.join(sourceDir, "Pipfile.lock"));
  const dockerfile = await dockerfileIn(sourceDir, place);
  const extra = path.join(place.dir, contextExtra);
  const sent = await Promise.all((await readdir(extra)).map((name) => readFile(path.join(extra, name), "utf8")));
  assert.ok(sent.some((text) => text.startsWith("fastapi")));
  assert.doesNotMatch([dockerfile, ...sent].join("\n"), /secret-package/);
});

test("collects the static files of Django in an image, and goes on without them", async () => {
  const dockerfile = await dockerfileOf({
    "requirements.txt": "django\n",
    "manage.py": "",
    "shop/wsgi.py": "",
    "shop/settings.py": 'INSTALLED_APPS = ["django.contrib.staticfiles"]\nSTATIC_ROOT = "static"\n',
  });
  assert.match(dockerfile, /RUN \["sh","-c","python manage\.py collectstatic --noinput \|\| echo /);
});

test("gives a proxy in an image an environment of its own", async () => {
  const server = 'if __name__ == "__main__":\n  mcp.run(transport="stdio")\n';
  const dockerfile = await dockerfileOf({ "requirements.txt": "mcp\n", "server.py": server });
  assert.match(dockerfile, /install-server\.py".*"argv":\["--requirement","requirements\.txt"\]/);
  assert.match(dockerfile, /RUN \["\/opt\/pierhead\/tools\/bin\/python",.*"mcp-proxy>=0\.8"\]/);
  assert.match(dockerfile, /CMD \["mcp-proxy",.*"python","server\.py"\]/);
});

test("starts an image of a server in the directory from which it imports its modules", async () => {
  const main = "from words import word\napp = FastAPI()\n";
  const dockerfile = await dockerfileOf({ "requirements.txt": "fastapi\n", "web/main.py": main, "web/words.py": "" });
  assert.match(dockerfile, /ENV PYTHONPATH="\/app\/web:\/app\/web\/src"/);
  assert.match(dockerfile, /WORKDIR \/app\/web\nENV HOME[\s\S]*CMD \["python","-m","uvicorn","main:app"/);
});

test("installs the requirements.txt of a project that describes itself in a pyproject.toml without dependencies", async () => {
  const files = { "requirements.txt": "fastapi\n", "main.py": "app = FastAPI()\n" };
  const described = '[project]\nname = "agent"\nversion = "1"\n';
  const plain = await dockerfileOf({ ...files, "pyproject.toml": described });
  assert.match(plain, /"--requirement","requirements\.txt","uvicorn"\]/);
  const packaged = `${described}[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n`;
  const both = await dockerfileOf({ ...files, "pyproject.toml": packaged });
  assert.match(both, /"--editable","\.","--requirement","requirements\.txt"/);
  const dynamic = packaged.replace("[build-system]", 'dynamic = ["dependencies"]\n[build-system]');
  assert.doesNotMatch(await dockerfileOf({ ...files, "pyproject.toml": dynamic }), /"--requirement"/);
});

test("gives up in an image what only requirements.txt lists when it cannot be installed", async () => {
  const pyproject = '[project]\nname = "agent"\nversion = "1"\ndependencies = ["fastapi"]\n';
  const files = { "pyproject.toml": pyproject, "requirements.txt": "legacy\n", "main.py": "app = FastAPI()\n" };
  const [first, second] = (await dockerfileOf(files)).split(/"argv":/).slice(1);
  assert.match(first ?? "", /also-requirements\.txt.*"mayBeOutdated":true/);
  assert.match(second ?? "", /"because":"Not all that requirements\.txt lists can be installed\./);
  assert.doesNotMatch(second ?? "", /also-requirements|mayBeOutdated/);
});
