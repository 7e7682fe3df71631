import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { eventually } from "./eventually.ts";

/** A received span, with its attributes as one object. */
export interface CollectedSpan {
  name: string;
  traceId: string;
  spanId: string;
  /** Empty for the root span of a trace. */
  parentId: string;
  /** `service.name` of the sender. */
  service: string;
  /** Names without the prefix `pierhead.`. */
  attributes: Record<string, unknown>;
  /** Error message of the span; null if it did not fail. */
  cause: string | null;
  beganAtMs: number;
  endedAtMs: number;
}

/** A collector for OTLP over HTTP in JSON, following the specification. */
export interface Collector extends AsyncDisposable {
  /** Base address, as in the configuration. */
  url: string;
  spans: CollectedSpan[];
  /** All request bodies, unchanged. */
  bodies: string[];
  headers: NodeJS.Dict<string | string[]>[];
  /** Waits until the spans of a trace satisfy the condition. @returns the spans. */
  trace(traceId: string, isThere: (spans: CollectedSpan[]) => boolean): Promise<CollectedSpan[]>;
}

export async function startCollector(): Promise<Collector> {
  const made = { spans: [] as CollectedSpan[], bodies: [] as string[], headers: [] as Collector["headers"] };
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const isTaken = request.method === "POST" && request.url === "/v1/traces";
    if (isTaken) {
      made.bodies.push(body);
      made.headers.push(request.headers);
      // A batch sent again after a late response contains the same spans.
      const known = new Set(made.spans.map(({ spanId }) => spanId));
      made.spans.push(...spansOf(JSON.parse(body)).filter(({ spanId }) => !known.has(spanId)));
    }
    response.writeHead(isTaken ? 200 : 404, { "content-type": "application/json" }).end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const ofTrace = (traceId: string) => made.spans.filter((span) => span.traceId === traceId);
  return Object.assign(made, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    trace: (traceId: string, isThere: (spans: CollectedSpan[]) => boolean) =>
      eventually(async () => ofTrace(traceId), isThere),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  });
}

interface Value {
  stringValue?: string;
  intValue?: number | string;
  boolValue?: boolean;
}

type Attributes = { key: string; value: Value }[];

/** The fields of ExportTraceServiceRequest that tests read. */
interface Exported {
  resourceSpans: {
    resource: { attributes: Attributes };
    scopeSpans: {
      spans: {
        name: string;
        traceId: string;
        spanId: string;
        parentSpanId?: string;
        attributes: Attributes;
        status: { code?: number; message?: string };
        startTimeUnixNano: string;
        endTimeUnixNano: string;
      }[];
    }[];
  }[];
}

const statusError = 2;

function spansOf({ resourceSpans }: Exported): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(attributesOf(resource.attributes)["service.name"]);
    return scopeSpans.flatMap(({ spans }) =>
      spans.map(({ name, traceId, spanId, parentSpanId = "", attributes, status, ...at }) => ({
        ...{ name, traceId, spanId, service, parentId: parentSpanId, attributes: attributesOf(attributes) },
        cause: status.code === statusError ? (status.message ?? "") : null,
        beganAtMs: Number(BigInt(at.startTimeUnixNano) / 1_000_000n),
        endedAtMs: Number(BigInt(at.endTimeUnixNano) / 1_000_000n),
      })),
    );
  });
}

const attributesOf = (attributes: Attributes): Record<string, unknown> =>
  Object.fromEntries(
    attributes.map(({ key, value }) => [key.replace(/^pierhead\./, ""), Object.values(value)[0] as unknown]),
  );
