import assert from "node:assert/strict";
import { test } from "node:test";
import { BuildFailure } from "../../src/builds/failure.ts";
import { checkBaseNames } from "../../src/builds/image/base-names.ts";

const built = "pierhead-built/12345678:abc";
const pushed = "127.0.0.1:8124/r/0b94f6f1-6b61-4b4f-9f0e-7d4d2d5f2a10/agent:1";
const id = "9f".repeat(32);

test("rejects every spelling of a Dockerfile that uses an image built or stored by this server", () => {
  for (const dockerfile of [
    `FROM ${built}`,
    `from --platform=linux/amd64 docker.io/${built} AS base`,
    "FROM index.docker.io/pierhead-used/12345678:abc",
    "FROM pierhead-\\\nbuilt/12345678:abc",
    "# escape=`\nFROM pierhead-`\n# a comment between\nbuilt/12345678:abc",
    "FROM node:24\n# escape=`\nFROM pierhead-\\\nbuilt/12345678:abc",
    `ARG PLACE=pierhead-built\nFROM $PLACE/12345678:abc`,
    `ARG PLACE="pierhead-built"\nFROM \${PLACE}/12345678:abc`,
    `FROM "pierhead"-built/12345678:abc`,
    `FROM $\{NONE:-${built}}`,
    `FROM node:24\nCOPY --chown=1:1 --from=${built} / /`,
    `FROM ${pushed}`,
    `FROM node:24\nCOPY --from=registry.example.com/${pushed.slice(15)} / /`,
    `FROM sha256:${id}`,
    `FROM ${id.slice(0, 12)}`,
    // A prefix of an image id that is short enough to guess.
    "FROM 12",
    // The engine skips empty lines within a continued instruction.
    `FROM \\\n\n${built}`,
    `FROM node:24\nCOPY \\\n  \n--from=${built} / /`,
    // An ARG within a stage does not change the name of the stage's image.
    `ARG PLACE=pierhead-built\nFROM $PLACE/12345678:abc\nARG PLACE=library`,
    // The engine removes quotes and escape marks from options before it parses them.
    `FROM node:24\nCOPY --fr\\om=${built} / /`,
    `FROM node:24\nCOPY --"fr"om=${built} / /`,
    `FROM node:24\nONBUILD COPY --fr\\om=${built} / /`,
    // White space for the engine, not for regular expressions.
    `FROM node:24\n\u0085COPY --from=${built} / /`,
    // Old and new engines parse these differently.
    `# syntax=x\r\n# escape=\`\r\nFROM \`\r\n${built}\r\n`,
    `# syntax=x\n# escape=\`\nFROM \\\n${built}`,
    `FROM node:24\nRUN echo \\\\\nFROM ${built}`,
    `FROM node:24\nCOPY \\\\\n --from=${built} / /`,
    // A stage name is valid only after the stage has ended.
    "FROM node:24 AS cafe\nCOPY --from=cafe / /",
    "FROM cafe\nFROM node:24 AS cafe",
  ]) {
    assert.throws(() => checkBaseNames(dockerfile), BuildFailure, dockerfile);
  }
});

test("accepts other images, stages and arguments", () => {
  checkBaseNames(
    [
      "# FROM pierhead-built/12345678:abc",
      "ARG VERSION=24 FLAVOUR=slim",
      "FROM node:$VERSION-${FLAVOUR} AS made",
      `FROM registry.example.com:5000/team/r/agent@sha256:${id}`,
      "COPY --from=made /app /app",
      "COPY --from=0 /etc /etc",
      "FROM debian:12 AS deb",
      "FROM deb AS Cafe",
      "FROM node:24",
      "COPY --from=deb --chown=1:1 /etc /etc",
      "COPY --from=cafe /etc /etc",
      "RUN echo 'select 1 \\",
      "  FROM $TABLE'",
      'CMD ["node", "--from=pierhead", "$HOME"]',
    ].join("\n"),
  );
});
