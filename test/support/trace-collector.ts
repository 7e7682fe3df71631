import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { eventually } from "./eventually.ts";

/** A span as it arrived, with its attributes as one object. */
export interface CollectedSpan {
  name: string;
  traceId: string;
  spanId: string;
  /** "" for the first of a trace. */
  parentId: string;
  /** `service.name` of who sent it. */
  service: string;
  /** Without `pierhead.` before the name. */
  attributes: Record<string, unknown>;
  /** Why it failed; null: it did not. */
  cause: string | null;
  beganAtMs: number;
  endedAtMs: number;
}

/** A collector that takes OTLP over HTTP as JSON, as the protocol's specification says. */
export interface Collector extends AsyncDisposable {
  /** Base address, as operators give it. */
  url: string;
  spans: CollectedSpan[];
  /** Everything that was sent, as it was. */
  bodies: string[];
  headers: NodeJS.Dict<string | string[]>[];
  /** Waits until a trace looks as wanted. @returns its spans. */
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
      // What is sent again because our answer was late is the same span.
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

/** Of ExportTraceServiceRequest what we look at. */
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
