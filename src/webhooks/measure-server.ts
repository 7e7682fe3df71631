import { readDiskSpace } from "../base/disk-reserve.ts";
import type { Certificate } from "../domain/subject-alerts.ts";
import { readCertificateExpiry } from "../integrations/certificate.ts";
import { recordServerFacts } from "../store/alerts/subject-facts.ts";
import type { Db } from "../store/engine/database.ts";
import { describeError, type Logger } from "../telemetry/log.ts";

const diskEveryMs = 60_000;
const certificatesEveryMs = 3_600_000;
const certificateRetryMs = 300_000;

/** The proxy in front of the server may start after it. */
const firstCertificatesMs = 60_000;

export interface MeasuredServer {
  /** Id of the data directory. */
  id: string;
  /** Name of the machine. */
  name: string;
  dataDir: string;
  /** Addresses with TLS at which users reach it, as `https://host`. */
  addresses: readonly string[];
}

/** Measures what alert rules know of this server, and records it for the server that evaluates them. */
export class ServerMeasurements {
  readonly #deps: { db: Db; logger: Logger; server: MeasuredServer };
  readonly #certificates = new Map<string, Certificate>();
  #diskAtMs = 0;
  #certificatesAtMs = performance.now() + firstCertificatesMs;
  #checking = Promise.resolve();

  constructor(deps: { db: Db; logger: Logger; server: MeasuredServer }) {
    this.#deps = deps;
  }

  /** Measures what is due. A failure is logged, and does not keep the rules from being evaluated. */
  async measure(signal: AbortSignal): Promise<void> {
    const { db, logger, server } = this.#deps;
    const nowMs = performance.now();
    if (nowMs >= this.#certificatesAtMs) {
      this.#certificatesAtMs = nowMs + certificatesEveryMs;
      // An address that does not answer must not delay the other alerts.
      this.#checking = this.#readCertificates(signal);
    }
    if (nowMs < this.#diskAtMs) return;
    this.#diskAtMs = nowMs + diskEveryMs;
    try {
      const { sizeBytes, freeBytes } = await readDiskSpace(server.dataDir);
      const disk = { diskSizeBytes: sizeBytes, diskFreeBytes: freeBytes };
      const certificates = [...this.#certificates.values()];
      const hosts = server.addresses.map(hostOf);
      await recordServerFacts(db, { server: server.id, name: server.name, ...disk, certificates, hosts });
    } catch (error) {
      logger.warn({ error: describeError(error) }, "server could not be measured");
    }
  }

  /** Waits for a check of certificates that has begun. Its signal ends it. */
  async settled(): Promise<void> {
    await this.#checking;
  }

  async #readCertificates(signal: AbortSignal): Promise<void> {
    const { logger, server } = this.#deps;
    for (const address of server.addresses) {
      const host = hostOf(address);
      try {
        const expiresAt = await readCertificateExpiry(address, signal);
        this.#certificates.set(host, { host, expires_at: expiresAt.toISOString() });
      } catch (error) {
        if (signal.aborted) return;
        // What was known of it before still holds.
        this.#certificatesAtMs = performance.now() + certificateRetryMs;
        logger.info({ host, error: describeError(error) }, "certificate could not be read");
      }
    }
  }
}

const hostOf = (address: string) => new URL(address).hostname;
