import type { Logger } from "../telemetry/log.ts";
import type { Traces } from "../telemetry/traces.ts";
import { optional, type Read, whole } from "./setting.ts";
import { version } from "./version.ts";

/** Traces of Pierhead itself; where agents send theirs is `PIERHEAD_TRACING`. Read by the server and by a listener alone. */
export const tracesSettings = {
  tracesUrl: optional(
    "PIERHEAD_TRACES_URL",
    "none",
    "OpenTelemetry collector, by OTLP over HTTP, for the traces of Pierhead itself: `http://127.0.0.1:4318`. Those of agents are `PIERHEAD_TRACING`.",
  ),
  tracesHeaders: optional(
    "PIERHEAD_TRACES_HEADERS",
    "none",
    "Headers for that collector, such as its key, as `name=value` pairs separated by commas.",
  ),
  tracesPercent: whole(
    "PIERHEAD_TRACES_PERCENT",
    100,
    0,
    100,
    "Of a hundred traces that begin here, so many are kept; of one that a caller began, the caller says.",
  ),
};

/**
 * @param program what is running, and which of them.
 * @returns null when no collector is given: then nothing of OpenTelemetry is loaded.
 * @throws Error naming the variable that is wrong.
 */
export async function openTraces(
  settings: Read<typeof tracesSettings>,
  program: { name: string; instanceId: string; logger: Logger },
): Promise<Traces | null> {
  if (settings.tracesUrl === undefined) return null;
  const { name, instanceId, logger } = program;
  const given = {
    url: addressOf(settings.tracesUrl),
    headers: headersOf(settings.tracesHeaders),
    ratio: settings.tracesPercent / 100,
    service: { name, version, instanceId },
  };
  const { openOtlpTraces } = await import("../telemetry/otlp-traces.ts");
  return openOtlpTraces(given, logger);
}

/** A collector is named by its base address (OTLP specification, endpoint URLs), or by the path that takes traces. */
function addressOf(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new Error("PIERHEAD_TRACES_URL must be the http or https address of an OpenTelemetry collector");
  }
  if (url.username !== "" || url.password !== "") {
    throw new Error("PIERHEAD_TRACES_URL must hold no password: give it in PIERHEAD_TRACES_HEADERS");
  }
  const path = url.pathname.replace(/\/+$/, "");
  url.pathname = path.endsWith("/v1/traces") ? path : `${path}/v1/traces`;
  return url.href;
}

function headersOf(text: string | undefined): Record<string, string> {
  const pairs = (text ?? "").split(",").filter((pair) => pair.trim() !== "");
  try {
    const entries = pairs.map(
      (pair) =>
        /^([^=]+)=(.*)$/s
          .exec(pair)
          ?.slice(1)
          .map((part) => part.trim()) ?? [""],
    );
    return Object.fromEntries(new Headers(entries as [string, string][]));
  } catch {
    // What is wrong may be a key: it is not repeated.
    throw new Error("PIERHEAD_TRACES_HEADERS must be `name=value` pairs separated by commas");
  }
}
