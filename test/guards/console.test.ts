import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { test } from "node:test";

const sources = readdirSync("console/src", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name))
  .map((name) => `console/src/${name.replaceAll("\\", "/")}`);
const read = (file: string) => readFileSync(file, "utf8");

test("the console imports only the rooms client, contract and domain, and its listed packages", () => {
  const offences = sources.flatMap((file) => {
    const found = read(file).matchAll(/^import\b[^;]*?"([^"]+)"|\bimport\("([^"]+)"\)/gm);
    const imported = [...found].map(([, named, dynamic]) => named ?? dynamic ?? "");
    return imported
      .map((target) => (target.startsWith(".") ? posix.join(posix.dirname(file), target) : target))
      .filter((target) => {
        if (target.startsWith("console/src/")) return false;
        if (/^src\/(client|contract|domain)\//.test(target)) return false;
        return !/^(react|react-dom\/client|lucide-react|@tanstack\/react-(query|router)|@base-ui\/react\/[\w-]+|react-markdown|remark-gfm|@dagrejs\/dagre)$/.test(
          target,
        );
      })
      .map((target) => `${file} -> ${target}`);
  });
  assert.deepEqual(offences, []);
});

test("the console calls the server only through the client, except the panel that calls agents", () => {
  const offences = sources.filter((file) => {
    const isAllowed = /\/(server\.ts|agent\/client\.ts|request\.tsx)$/.test(file);
    return !isAllowed && /\bfetch\(|XMLHttpRequest|EventSource|WebSocket|sendBeacon|\.request\(/.test(read(file));
  });
  assert.deepEqual(offences, []);
});

test("no text becomes markup or script in the console", () => {
  const offences = sources.filter((file) =>
    /dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/.test(read(file)),
  );
  assert.deepEqual(offences, []);
});
