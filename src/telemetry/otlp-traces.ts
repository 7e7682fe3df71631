import { setTimeout as sleep } from "node:timers/promises";
import {
  type Context,
  ROOT_CONTEXT,
  type Span as SdkSpan,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { describeError, type Logger } from "./log.ts";
import { type Attributes, parseTraceparent, type Span, type Traces } from "./traces.ts";

export interface OtlpSettings {
  /** URL that spans are posted to, including `/v1/traces`. */
  url: string;
  headers: Record<string, string>;
  /** Share of the traces started here that is sampled, 0 to 1. */
  ratio: number;
  /** `service.name`, `service.version` and `service.instance.id` of this program. */
  service: { name: string; version: string; instanceId: string };
}

/** Queued spans, about 1 KiB each, so 8 MiB while the collector is down; further spans are dropped. */
const queueMax = 8_192;
const batchMax = 512;
const batchDelayMs = 1_000;

/** Time limit of one batch with its retries. A process exits at most this much later if the collector does not answer. */
const exportTimeoutMs = 3_000;

const closeTimeoutMs = 2_000;

/** Attributes are ids and words, so a longer value is a mistake. */
const valueLengthMax = 256;

/** Sends spans to an OpenTelemetry collector by OTLP over HTTP, in the background. Only this file loads OpenTelemetry. */
export function openOtlpTraces(settings: OtlpSettings, logger: Logger): Traces {
  const exporter = new LoggingExporter(settings, logger);
  const { name, version, instanceId } = settings.service;
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      "service.name": name,
      "service.version": version,
      "service.instance.id": instanceId,
    }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(settings.ratio) }),
    spanLimits: { attributeValueLengthLimit: valueLengthMax },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        maxQueueSize: queueMax,
        maxExportBatchSize: batchMax,
        scheduledDelayMillis: batchDelayMs,
        exportTimeoutMillis: 2 * exportTimeoutMs,
      }),
    ],
  });
  const tracer = provider.getTracer("pierhead", version);
  return {
    begin(spanName, parent, attributes = {}, kind = "internal") {
      const options = { attributes: named(attributes), kind: kind === "server" ? SpanKind.SERVER : SpanKind.INTERNAL };
      return new OtlpSpan(tracer, tracer.startSpan(spanName, options, contextOf(parent)));
    },
    async close() {
      const flushed = provider.shutdown().catch(() => {});
      // If the collector did not accept the last batch, do not wait for it.
      if (!exporter.isFailing) await Promise.race([flushed, sleep(closeTimeoutMs, undefined, { ref: false })]);
    },
  };
}

class OtlpSpan implements Span {
  readonly #tracer: Tracer;
  readonly #span: SdkSpan;
  #hasEnded = false;

  constructor(tracer: Tracer, span: SdkSpan) {
    this.#tracer = tracer;
    this.#span = span;
  }

  get traceId(): string {
    return this.#span.spanContext().traceId;
  }

  get traceparent(): string {
    const { traceId, spanId, traceFlags } = this.#span.spanContext();
    return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  begin(name: string, attributes: Attributes = {}, startedAt?: Date): Span {
    const options = { attributes: named(attributes), ...(startedAt && { startTime: startedAt }) };
    const context = trace.setSpan(ROOT_CONTEXT, this.#span);
    return new OtlpSpan(this.#tracer, this.#tracer.startSpan(name, options, context));
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(named(attributes));
  }

  fail(cause: string): void {
    this.#span.setStatus({ code: SpanStatusCode.ERROR, message: cause });
    this.#span.setAttributes(named({ "error.type": cause }));
  }

  end(endedAt?: Date): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#span.end(endedAt);
  }
}

function contextOf(parent: string | null): Context {
  const found = parseTraceparent(parent);
  if (found === undefined) return ROOT_CONTEXT;
  const { traceId, spanId, isSampled } = found;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: isSampled ? 1 : 0, isRemote: true });
}

function named(attributes: Attributes): Record<string, string | number | boolean> {
  return Object.fromEntries(
    Object.entries(attributes).flatMap(([name, value]) =>
      value === null || value === undefined ? [] : [[name.includes(".") ? name : `pierhead.${name}`, value]],
    ),
  );
}

/** Logs once when the collector stops accepting spans, and once when it accepts them again. */
class LoggingExporter implements SpanExporter {
  readonly #exporter: OTLPTraceExporter;
  readonly #logger: Logger;
  isFailing = false;

  constructor({ url, headers }: OtlpSettings, logger: Logger) {
    this.#exporter = new OTLPTraceExporter({ url, headers, timeoutMillis: exportTimeoutMs });
    this.#logger = logger;
  }

  export: SpanExporter["export"] = (spans, done) => {
    this.#exporter.export(spans, (result) => {
      const isFailing = result.error !== undefined;
      if (isFailing && !this.isFailing) {
        this.#logger.warn({ error: describeError(result.error) }, "collector rejected traces");
      }
      if (!isFailing && this.isFailing) this.#logger.info("collector accepts traces again");
      this.isFailing = isFailing;
      done(result);
    });
  };

  shutdown(): Promise<void> {
    return this.#exporter.shutdown();
  }
}
