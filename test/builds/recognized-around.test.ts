import assert from "node:assert/strict";
import { test } from "node:test";
import { databaseParts } from "../../src/builds/detect/database-parts.ts";
import { readProject } from "../../src/builds/detect/project.ts";
import { databaseSchemes, wantedVariables } from "../../src/builds/detect/read-variables.ts";
import { type Files, scratch, writeFiles } from "./fixtures.ts";

async function read(files: Files, configPath: string | null = null) {
  await using place = await scratch();
  await writeFiles(place.dir, files);
  return await readProject(place.dir, configPath, { nodeMajor: 24, target: "directory" });
}

const fastapi = { "requirements.txt": "fastapi\n", "main.py": "app = FastAPI()\n" };

test("runs the release command of a Procfile before the web command, each in its own directory", async () => {
  const before = async (procfile: string, files: Files = fastapi) => {
    const project = await read({ ...files, Procfile: procfile, "api/main.py": "" });
    return project.kind === "command" && project.launch?.before;
  };
  const web = "web: uvicorn main:app --port $PORT\n";
  assert.deepEqual(await before(`${web}release: alembic upgrade head\n`), [["alembic", "upgrade", "head"]]);
  assert.deepEqual(await before(`release: cd api && python seed.py\nweb: cd api && uvicorn main:app\n`), [
    ["python", "seed.py"],
  ]);
  assert.deepEqual(await before(`${web}release: cd api && python seed.py\n`), [
    ["sh", "-c", "cd api && exec python seed.py"],
  ]);
  assert.equal(await before(web), undefined);
  const scripts = { build: "prisma migrate deploy && next build", start: "next start" };
  const node = { "package.json": JSON.stringify({ dependencies: { next: "15" }, scripts }) };
  const project = await read({ ...node, Procfile: "web: npm start\n" });
  assert.deepEqual(project.kind === "command" && [project.build, project.launch?.before], [
    [["next", "build"]],
    [["prisma", "migrate", "deploy"]],
  ]);
});

test("finds out whether a project wants the address of a PostgreSQL in DATABASE_URL", async () => {
  const wants = async (files: Files) => {
    await using place = await scratch();
    await writeFiles(place.dir, files);
    return (await wantedVariables(place.dir, ".")).includes("DATABASE_URL");
  };
  const settings = "class Settings(BaseSettings):\n    database_url: str\n";
  const schema = (provider: string) => `datasource db {\n  provider = "${provider}"\n  url = env("DATABASE_URL")\n}\n`;
  assert.deepEqual(
    await Promise.all([
      wants({ "main.py": 'url = os.environ["DATABASE_URL"]' }),
      wants({ "main.py": settings }),
      wants({ "prisma/schema.prisma": schema("postgresql") }),
      wants({ ".env.example": "DATABASE_URL=postgresql+asyncpg://me@localhost/shop" }),
    ]),
    [true, true, true, true],
  );
  assert.deepEqual(
    await Promise.all([
      wants({ "main.py": 'url = os.getenv("DATABASE_URL", "sqlite:///shop.db")' }),
      wants({ "main.py": settings.replace("str", 'str = "sqlite://"') }),
      wants({ "prisma/schema.prisma": schema("sqlite") }),
      wants({ "main.py": settings, ".env.example": "DATABASE_URL=sqlite+aiosqlite:///shop.db" }),
    ]),
    [false, false, false, false],
  );
});

test("finds the scheme of the PostgreSQL addresses in a project's example file, except those of tests", async () => {
  await using place = await scratch();
  const example = `DATABASE_URL="postgresql+asyncpg://me@localhost/shop"
TEST_DATABASE_URL=postgresql://me@localhost/test
REDIS_URL=redis://localhost
POSTGRES_DSN=postgres://me@localhost/shop # of the workers
LEGACY_DB_URL=postgres://me@localhost/before
`;
  await writeFiles(place.dir, { ".env.example": example });
  const found = await databaseSchemes(place.dir, ".");
  assert.deepEqual(found, { DATABASE_URL: "postgresql+asyncpg", POSTGRES_DSN: "postgres" });
  await writeFiles(place.dir, { ".env.example": "SHOP_DB=postgres://localhost/a\nOLD_DB=postgres://localhost/b\n" });
  assert.deepEqual(await databaseSchemes(place.dir, "."), {}, "it is unknown which one is the project's own");
});

test("imports modules that services of a source share from the directory above", async () => {
  const files = {
    "common/log.py": "",
    "service/requirements.txt": "fastapi",
    "service/main.py": "import os\nfrom common import log\nfrom own import x\napp = FastAPI()\n",
    "service/own.py": "",
  };
  const importsFrom = async (more: Files = {}) => {
    const project = await read({ ...files, ...more }, "service/requirements.txt");
    return project.kind === "command" && project.importsFrom;
  };
  assert.equal(await importsFrom(), ".");
  assert.equal(await importsFrom({ "service/common/__init__.py": "" }), undefined);
  assert.equal(await importsFrom({ "service/requirements.txt": "fastapi\ncommon\n" }), undefined);
});

test("names the projects below a directory without a server", async () => {
  const files = { "backend/pyproject.toml": "", "web/package.json": "{}", "README.md": "" };
  await assert.rejects(read(files), {
    message:
      /below have projects of their own: backend\/pyproject.toml, web\/package.json. Use --config with one of them/,
  });
  const core = { "pyproject.toml": "[project]\ndependencies = []", "core.py": "" };
  const server = { "server/pyproject.toml": "", "server/main.py": "app = FastAPI()" };
  await assert.rejects(read({ ...core, ...server }), { message: /Use --config server\/pyproject.toml\.$/ });
});

test("finds the variables in which a project expects the parts of its PostgreSQL's address", async () => {
  const partsOf = async (files: Files) => {
    await using place = await scratch();
    await writeFiles(place.dir, files);
    return await databaseParts(place.dir, ".");
  };
  const code = `host = os.getenv("DB_HOST", "localhost")
port = os.getenv("DB_PORT", 5432)
name, user = os.environ["DB_NAME"], os.environ["DB_USER"]
`;
  const parts = { DB_HOST: "host", DB_PORT: "port", DB_NAME: "name", DB_USER: "user" };
  assert.deepEqual(await partsOf({ "db.py": code, "requirements.txt": "psycopg[binary]>=3\n" }), parts);
  assert.deepEqual(
    await partsOf({
      "server.js": "new Pool({ host: process.env.PGHOST, database: process.env.PGDATABASE })",
      "package.json": '{"dependencies": {"pg": "8"}}',
    }),
    { PGHOST: "host", PGDATABASE: "name" },
  );
  const settings =
    "class Settings(BaseSettings):\n    POSTGRES_SERVER: str\n    POSTGRES_PASSWORD: str\n    POSTGRES_DB: str\n";
  const example = "POSTGRES_SERVER=localhost\nPOSTGRES_USER=app\n";
  assert.deepEqual(await partsOf({ "settings.py": settings, ".env.example": example }), {
    ...{ POSTGRES_SERVER: "host", POSTGRES_PASSWORD: "password", POSTGRES_DB: "name", POSTGRES_USER: "user" },
  });
  // Another database, one of several, or one that the project does not need.
  assert.deepEqual(await partsOf({ "db.py": code, "requirements.txt": "pymysql\n" }), {});
  assert.deepEqual(await partsOf({ "db.py": code, "requirements.txt": "pymysql\npsycopg2-binary\n" }), {});
  const other = code.replace('"localhost"', "None").replace("os.getenv", "os.environ.get");
  assert.deepEqual(await partsOf({ "db.py": other, "requirements.txt": "asyncpg\n" }), {});
});

test("expects all usual parts beside POSTGRES_HOST, also those that the sources do not name", async () => {
  await using place = await scratch();
  const partsOf = async (files: Files) => {
    await writeFiles(place.dir, files);
    return await databaseParts(place.dir, ".");
  };
  const usual = {
    ...{ POSTGRES_HOST: "host", POSTGRES_PORT: "port", POSTGRES_USER: "user" },
    ...{ POSTGRES_PASSWORD: "password", POSTGRES_DB: "name" },
  };
  assert.deepEqual(
    await partsOf({ "db.py": 'os.environ["POSTGRES_HOST"]', "db.yaml": "user: ${POSTGRES_USER}" }),
    usual,
  );
  const either = 'os.getenv("PGHOST") or os.getenv("POSTGRES_HOST")';
  assert.deepEqual(await partsOf({ "db.py": either }), { PGHOST: "host", ...usual });
});

test("finds parts of a database's address that the configuration of NestJS reads", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, {
    "src/app.ts": `host: config.getOrThrow<string>("DB_HOST"), port: config.get<number>('DB_PORT', 5432)`,
    "package.json": '{"dependencies": {"typeorm": "0.3", "pg": "8"}}',
  });
  assert.deepEqual(await databaseParts(place.dir, "."), { DB_HOST: "host", DB_PORT: "port" });
});

test("finds parts of a database's address in fields of the settings of Pydantic", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, {
    "settings.py":
      'class Settings(BaseSettings):\n    pghost: str = "localhost"\n    pguser: str\n    pgdatabase: str\n',
    ".env.example": "PGHOST=localhost\n",
  });
  const parts = { PGHOST: "host", PGUSER: "user", PGDATABASE: "name" };
  assert.deepEqual(await databaseParts(place.dir, "."), parts);
});

test("finds parts of a database's address that Django projects read with django-environ or python-decouple", async () => {
  const partsOf = async (settings: string) => {
    await using place = await scratch();
    await writeFiles(place.dir, { "site/settings.py": settings, "requirements.txt": "psycopg2-binary\n" });
    return await databaseParts(place.dir, ".");
  };
  const parts = { DB_HOST: "host", DB_PORT: "port" };
  assert.deepEqual(await partsOf(`env("DB_HOST"), env.int("DB_PORT", default=5432)`), parts);
  assert.deepEqual(await partsOf(`env.str('DB_HOST', default='localhost'), env.int('DB_PORT')`), parts);
  assert.deepEqual(await partsOf(`config("DB_HOST", default="127.0.0.1"), config("DB_PORT", cast=int)`), parts);
  // Another default, with which the project may have another database.
  assert.deepEqual(await partsOf(`env("DB_HOST", default=None), env("DB_PORT")`), {});
  assert.deepEqual(await partsOf(`config("DB_HOST", default="db.example.com")`), {});
});
