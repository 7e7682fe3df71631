import assert from "node:assert/strict";
import { test } from "node:test";
import { detectServer } from "../../src/domain/detection/detect-server.ts";
import { readProjectFacts } from "../../src/domain/detection/project-facts.ts";

async function detect(files: Record<string, string>) {
  const reader = { list: async () => Object.keys(files), read: async (file: string) => files[file] ?? null };
  return detectServer(await readProjectFacts(reader));
}

const flask = "app = Flask(__name__)\n";

test("starts an application in a directory that Python cannot import in that directory", async () => {
  const { server } = await detect({ "requirements.txt": "flask", "web-app/src/app.py": flask });
  assert.equal(server?.start, "cd web-app && python -m gunicorn app:app --bind $HOST:$PORT");
  const page = await detect({
    "requirements.txt": "streamlit",
    "web-app/app.py": "import streamlit as st\nst.title('a')",
  });
  assert.match(page.server?.start ?? "", /streamlit run web-app\/app\.py/, "a page is found by its file");
});

test("offers samples in directories that Python cannot import", async () => {
  const found = await detect({ "requirements.txt": "flask\ngunicorn", "examples/chat-basic/app.py": flask });
  assert.ok(found.server === null && found.saysWhatToDo);
  assert.match(found.because, /"cd examples\/chat-basic && python -m gunicorn app:app --bind \$HOST:\$PORT"/);
});

test("starts a Django project in the directory of its own manage.py, and no sample of a package for Django", async () => {
  const files = { "requirements.txt": "django", "manage.py": "" };
  const nested = await detect({ ...files, "backend/manage.py": "", "backend/shop/wsgi.py": "" });
  assert.equal(nested.server?.start, "cd backend && python -m gunicorn shop.wsgi:application --bind $HOST:$PORT");
  const sample = await detect({ ...files, "example/manage.py": "", "example/example/wsgi.py": "" });
  assert.ok(sample.server === null && sample.saysWhatToDo);
  assert.match(sample.because, /its samples do: example \(Django\)/);
});

test("starts the site of a manage.py that is called like a directory of samples", async () => {
  const files = { "requirements.txt": "django", "manage.py": "", "example/settings.py": "", "example/wsgi.py": "" };
  assert.match((await detect(files)).server?.start ?? "", /gunicorn example\.wsgi:application/);
});

test("prefers servers that Python can import to those in other directories", async () => {
  const files = { "requirements.txt": "flask", "load-test/main.py": flask, "server/api/web.py": flask };
  assert.match((await detect(files)).server?.start ?? "", /^python -m gunicorn server\.api\.web:app/);
});
