import assert from "node:assert/strict";
import { test } from "node:test";
import { createLogger } from "../../src/telemetry/log.ts";
import { readableLog } from "../../src/telemetry/readable-log.ts";

test("a readable line has time, level, message and fields, and no value can begin a line or move the cursor", () => {
  let written = "";
  const destination = {
    write(text: string) {
      written += text;
    },
  };
  createLogger("info", readableLog(destination, false)).warn(
    { listener_id: "3f0c", error: "timed out", items: [1], text: "\u001b[2Ja\nb" },
    "listener lost contact",
  );
  assert.match(
    written,
    /^\d\d:\d\d:\d\d\.\d{3} WARN {2}listener lost contact listener_id=3f0c error="timed out" items=\[1\] text="\\u001b\[2Ja\\nb"\n$/,
  );
  written = "";
  createLogger("info", readableLog(destination, true)).info("server started");
  assert.ok(written.includes("\u001b[32mINFO"));
});
