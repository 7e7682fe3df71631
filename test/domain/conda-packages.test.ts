import assert from "node:assert/strict";
import { test } from "node:test";
import { condaProblem, readCondaEnvironment } from "../../src/domain/detection/conda-environment.ts";

const linesOf = (file: string, text: string) =>
  readCondaEnvironment(file, text)?.packages.map(({ line }) => line) ?? [];

const yaml = (...lines: string[]) => `dependencies:\n${lines.map((line) => `  - ${line}\n`).join("")}`;

test("converts the versions of conda to those of pip", () => {
  const listed = [
    ...[
      "numpy=1.26",
      "conda-forge::pandas=2.2.1=py312h1",
      "scipy>=1.10,<2",
      "httpx==0.27.0",
      "rich=13.*",
      '"attrs 23.2.*"',
    ],
    ...["flask =3.0", "pytz=2024a", "'jinja2 >=3|2.9'", "'click[version=8]'", "ZeroMQ", "redis!=5.*", "anyio>=4.*"],
    "sqlalchemy==2.0.*",
  ];
  assert.deepEqual(linesOf("environment.yml", yaml(...listed)), [
    ...["numpy==1.26.*", "pandas==2.2.1.*", "scipy>=1.10,<2", "httpx==0.27.0", "rich==13.*", "attrs==23.2.*"],
    ...["flask==3.0.*", "pytz", "jinja2", "click", "zeromq", "redis!=5.*", "anyio>=4"],
    "sqlalchemy==2.0.*",
  ]);
});

test("uses the names of PyPI, and leaves programs and libraries of the system out", () => {
  const text = yaml(
    "pytorch=2.4",
    "uvicorn-standard",
    "openssl=3.0.15=h5eee18b_0",
    "libgcc-ng",
    "nodejs",
    "pip",
    "cmdstan",
  );
  const found = readCondaEnvironment("environment.yml", text);
  assert.deepEqual(found?.packages, [
    { name: "torch", line: "torch==2.4.*" },
    { name: "uvicorn", line: "uvicorn[standard]" },
    { name: "cmdstan", line: "cmdstan" },
  ]);
  assert.deepEqual(found?.ofSystem, ["openssl", "libgcc-ng", "nodejs"]);
});

test("reads tables of one package, features of the default environment and tables for Linux of pixi", () => {
  const text = `[dependencies]
numpy = "1.26.*"
[dependencies.scipy]
version = ">=1.10"
channel = "conda-forge"
[pypi-dependencies.uvicorn]
version = ">=0.34"
extras = [
  "standard",
]
[target.linux-64.dependencies]
httpx = { version = "*", channel = "conda-forge" }
[target.win-64.dependencies]
pywin32 = "*"
[feature.web.pypi-dependencies]
fastapi = ">=0.115"
[feature.test.pypi-dependencies]
pytest = "*"
[environments]
ENV
`;
  const environments = ['default = ["web"]', 'default = { solve-group = "a", features = ["web"] }'];
  for (const environment of environments) {
    const found = readCondaEnvironment("pixi.toml", text.replace("ENV", environment));
    assert.deepEqual(found?.pip, ["uvicorn[standard]>=0.34", "fastapi>=0.115"]);
    assert.deepEqual(
      found?.packages.map(({ line }) => line),
      ["numpy==1.26.*", "scipy>=1.10", "httpx"],
    );
  }
  const none = readCondaEnvironment("pixi.toml", text.replace("ENV", 'test = ["test"]'));
  assert.deepEqual(none?.pip, ["uvicorn[standard]>=0.34"], "other environments are for development");
});

test("reads dotted keys of pixi, which name a table in the key", () => {
  const text = `[dependencies]
python = "3.12.*"
scipy.version = ">=1.10"
[pypi-dependencies]
uvicorn.version = ">=0.34"
uvicorn.extras = [
  "standard",
]
"ruamel.yaml" = "*"
[feature.web]
pypi-dependencies.fastapi.version = ">=0.115"
pypi-dependencies.jinja2 = "*"
[environments]
default = ["web"]
`;
  const found = readCondaEnvironment("pixi.toml", text);
  assert.deepEqual(
    [found?.pythonVersion, found?.pip.toSorted(), found?.packages.map(({ line }) => line)],
    ["3.12", ["fastapi>=0.115", "jinja2", "ruamel.yaml", "uvicorn[standard]>=0.34"], ["scipy>=1.10"]],
  );
});

test("reads the tables of pixi in a pyproject.toml, if there are any", () => {
  const text = `[project]
name = "a"
[tool.pixi.dependencies]
python = "3.12.*"
numpy = "*"
[tool.pixi.pypi-dependencies]
a = { path = ".", editable = true }
fastapi = { version = "==0.121.3" }
`;
  const found = readCondaEnvironment("pyproject.toml", text);
  assert.deepEqual(
    [found?.pythonVersion, found?.pip, linesOf("pyproject.toml", text)],
    ["3.12", ["-e .", "fastapi==0.121.3"], ["numpy"]],
  );
  assert.equal(readCondaEnvironment("pyproject.toml", '[project]\nname = "a"\n[tool.uv]\n'), null);
});

test("says what to do about packages of conda that PyPI does not have", () => {
  assert.match(
    condaProblem("environment.yml", ["cmdstan"]),
    /PyPI does not have: cmdstan\..*pip list .*requirements\.txt$/,
  );
  assert.match(condaProblem("pixi.toml", ["cmdstan"]), /pixi add --pypi fastapi$/);
});

test("tells libraries from packages of Python by the build of conda and by their names", () => {
  const text = yaml("pcre2=10.42=hebb0a14_1", "numpy=1.26.4=py312hc5e2394_0", "rich=13.9=pyhd8ed1ab_1", "librosa");
  assert.deepEqual(linesOf("environment.yml", text), ["numpy==1.26.4.*", "rich==13.9.*", "librosa"]);
  assert.deepEqual(readCondaEnvironment("environment.yml", text)?.ofSystem, ["pcre2"]);
});

test("does not look on PyPI for packages of channels that may be private", () => {
  const own = yaml("acme::agents", "conda-forge::numpy", "https://conda.example/acme::tools", "rich", "openssl");
  const found = readCondaEnvironment("environment.yml", own);
  assert.deepEqual(
    [found?.packages.map(({ name }) => name), found?.ofOtherChannels],
    [
      ["numpy", "rich"],
      ["agents", "tools"],
    ],
  );
  const among = readCondaEnvironment("environment.yml", `channels: [https://conda.example/acme, conda-forge]\n${own}`);
  assert.deepEqual(among?.ofOtherChannels, ["agents", "tools", "rich"]);
  const known = ["defaults", "https://conda.anaconda.org/conda-forge/", "pytorch/label/nightly", "pkgs/main"];
  assert.deepEqual(
    readCondaEnvironment("environment.yml", `channels: [${known.join(", ")}]\n${yaml("rich")}`)?.ofOtherChannels,
    [],
  );
  const pixi =
    '[workspace]\nchannels = ["conda-forge"]\n[dependencies]\nrich = "*"\nours = { version = "*", channel = "acme" }\n';
  assert.deepEqual(readCondaEnvironment("pixi.toml", pixi)?.ofOtherChannels, ["ours"]);
  const other = pixi.replace('"conda-forge"', '"https://conda.example/acme"');
  assert.deepEqual(readCondaEnvironment("pixi.toml", other)?.ofOtherChannels, ["rich", "ours"]);
});

test("passes the package indexes of pixi on to pip", () => {
  const text = `[tool.pixi.pypi-options]
index-url = "https://a.example/simple"
extra-index-urls = ["https://b.example/simple"]
[tool.pixi.pypi-dependencies]
ours = { version = "*", index = "https://c.example/simple" }
`;
  assert.deepEqual(readCondaEnvironment("pyproject.toml", text)?.pip, [
    "--index-url https://a.example/simple",
    "--extra-index-url https://b.example/simple",
    "--extra-index-url https://c.example/simple",
    "ours",
  ]);
});
