import assert from "node:assert/strict";
import { test } from "node:test";
import { BuildFailure } from "../../src/builds/failure.ts";
import { checkExpansions } from "../../src/builds/image/expansions.ts";

const nothing: Parameters<typeof checkExpansions>[1] = { variables: [], triggers: [] };
const kilobyte = "y".repeat(1_000);
const of = (...lines: string[]) => ["FROM node:24", ...lines].join("\n");
const refused = (dockerfile: string, bases = nothing) =>
  assert.throws(() => checkExpansions(dockerfile, bases), BuildFailure, dockerfile.slice(0, 200));
const doubled = (line: string) => Array.from({ length: 20 }, () => line);

test("rejects a Dockerfile whose variables make an instruction longer than 64 KiB", () => {
  for (const dockerfile of [
    of(`ENV B=${kilobyte}`, `ENV A=${"$B".repeat(100)}`),
    of(`ENV B=${kilobyte}`, `LABEL a=${"${B}".repeat(100)}`),
    of(`ENV B=${kilobyte}`, `WORKDIR /${"${B:-x}".repeat(100)}`),
    of(`ARG B=${kilobyte}`, `COPY a ${"$B".repeat(100)}`),
    `ARG B=${kilobyte}\nFROM node:24\nARG B\nENV A=${"$B".repeat(100)}`,
    of("ENV A=xxxx", ...doubled("ENV A=$A$A")),
    of("ENV A=xxxx", ...doubled("env A $A$A")),
    of("ENV A=xxxx", ...doubled("ENV A=$A\\\n$A")),
    of("ENV 1=xxxx", ...doubled("ENV 1=$1$1")),
    // What is in quotes, or behind an escape mark or white space that not every program knows, belongs to the variable before.
    of("ENV A=xxxx", ...doubled('ENV A="x B=$A$A"')),
    of("ENV A=xxxx", ...doubled("ENV A=x\\ B=$A$A")),
    of("ENV A=xxxx", ...doubled("ENV A=x\uFEFFB=$A$A")),
    of("ENV A=xxxx", ...doubled(`ENV A="x\\" B=$A$A"`)),
    of("ENV A=xxxx", ...doubled("ENV A b=$A$A")),
    `# escape=\`\n${of("ENV A=xxxx", ...doubled("ENV A=x` B=$A$A"))}`,
    of(`ENV A=${"\\\nx".repeat(70_000)}`),
    of(`ONBUILD ENV A=${"\\\nx".repeat(70_000)}`),
  ]) {
    refused(dockerfile);
  }
  refused(of(`ENV A=${"$BIG".repeat(10)}`), { variables: [`BIG=${kilobyte.repeat(10)}`], triggers: [] });
  refused("FROM base", { variables: [`B=${kilobyte}`], triggers: [`ENV A=${"$B".repeat(100)}`] });
});

test("rejects a Dockerfile that names more than 1,000 ports", () => {
  for (const dockerfile of [
    of("EXPOSE 1-65535"),
    of("EXPOSE 80 1-999/tcp", "EXPOSE 2000-2001"),
    of("ONBUILD EXPOSE 1-65535"),
    of('EXPOSE 1"-"65535'),
    of("EXPOSE 1\\-65535"),
    of("EXPOSE ${NONE:-1-65535}"),
    of("ARG ALL=1-65535", "EXPOSE $ALL"),
    of("ENV MARK=-", "ENV ALL=1${MARK}65535", "EXPOSE 80 ${ALL}"),
    of("ENV LAST=65535", "EXPOSE 1-$LAST"),
    of("ENV ALL=${NONE:-1-65535}", "EXPOSE $ALL"),
    of("ENV ALL=${NONE:-${NONE:--}}", "EXPOSE 1${ALL}65535"),
    of("ENV ALL=${NONE:--65535}", "EXPOSE 1$ALL"),
    // Newer engines can cut the mark out of a text that only looks like a default.
    of("ENV MARK='${X-'", "EXPOSE 1${MARK#*X}65535"),
    of("ENV MARK=\\${X-", "EXPOSE 1${MARK#*X}65535"),
    of("ENV MARK=$${X-", "EXPOSE 1${MARK#*X}65535"),
  ]) {
    refused(dockerfile);
  }
  refused(of("EXPOSE $ALL"), { variables: ["ALL=1-65535"], triggers: [] });
});

test("reads long lines of names in little time", () => {
  const began = performance.now();
  const lines = [`ENV ${"A".repeat(60_000)}`, `ENV ${"A=".repeat(30_000)} "`, `ENV ${'A="x y" '.repeat(7_000)}B="`];
  checkExpansions(of(...lines, ...lines, ...lines), nothing);
  assert.ok(performance.now() - began < 5_000, "it took 16 s when each name was read again");
});

test("accepts the Dockerfiles of projects, also long ones", () => {
  for (const dockerfile of [
    of("ENV PATH=/opt/bin:$PATH", "ENV PATH $PATH:/root/.cargo/bin", "ENV A=\"b c\" D='e f' G=h"),
    of(...Array.from({ length: 200 }, (_, n) => `ENV PATH="/opt/tool-${n}/bin:$PATH"`)),
    of(
      `ENV ${Array.from({ length: 60 }, (_, n) => `NAME_${n}=https://example.com/${"a".repeat(60)}/${n}`).join(" \\\n  ")}`,
      ...Array.from({ length: 60 }, (_, n) => `ENV ALL_${n}=$NAME_${n}:$NAME_${(n + 1) % 60}`),
    ),
    of("ARG PORT=8000", "EXPOSE ${PORT:-8000} 9000/udp 5000-5010", "EXPOSE $PORT", "expose 443"),
    of("ENV PORT=${PORT:-8000}", "EXPOSE $PORT"),
    of("ARG BASE_PORT", "ARG PORT=${BASE_PORT:-8080}", "EXPOSE ${PORT} 9090"),
    of(`ENV B=${kilobyte}`, `RUN echo ${"$B".repeat(500)}`, `CMD ["sh", "-c", "echo ${"$B".repeat(500)}"]`),
    of(`RUN ${"apt-get install -y a-package \\\n && ".repeat(3_000)} true`),
  ]) {
    checkExpansions(dockerfile, { variables: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/bin:/bin"], triggers: [] });
  }
});
