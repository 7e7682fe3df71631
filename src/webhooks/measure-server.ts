import { readDiskSpace } from "../base/disk-reserve.ts";
import type { Certificate } from "../domain/subject-alerts.ts";
import { readCertificateExpiry } from "../integrations/certificate.ts";
import { resolveHost, resolvePublicHost } from "../integrations/outbound-address.ts";
import { listAgentAddresses, recordServerFacts } from "../store/alerts/subject-facts.ts";
import type { Db } from "../store/engine/database.ts";
import { describeError, type Logger } from "../telemetry/log.ts";

const diskEveryMs = 60_000;
const certificatesEveryMs = 3_600_000;
const certificateRetryMs = 300_000;

export interface MeasuredServer {
  /** Id of the data directory. */
  id: string;
  /** Name of the machine. */
  name: string;
  dataDir: string;
  /** Addresses with TLS at which users reach it, as `https://host`. */
  addresses: readonly string[];
  /** Whether addresses that users chose for their deployments may be private ones. */
  allowPrivateNetwork: boolean;
}

/**
 * Measures what alert rules know of this server, and records it for the server that evaluates them. The first certificates are
 * read after a while, because the proxy in front of the server may start after it.
 */
export class ServerMeasurements {
  readonly #deps: { db: Db; logger: Logger; server: MeasuredServer };
  readonly #certificates = new Map<string, Certificate>();
  /** Addresses that were read last; null: none yet since the start. */
  #known: readonly Address[] | null = null;
  #diskAtMs = 0;
  #certificatesAtMs: number;
  #checking = Promise.resolve();
  #isChecking = false;

  constructor(
    deps: { db: Db; logger: Logger; server: MeasuredServer },
    { firstCertificatesMs = 60_000 }: { firstCertificatesMs?: number } = {},
  ) {
    this.#deps = deps;
    this.#certificatesAtMs = performance.now() + firstCertificatesMs;
  }

  /** Measures what is due. A failure is logged, and does not keep the rules from being evaluated. */
  async measure(signal: AbortSignal): Promise<void> {
    const { logger } = this.#deps;
    const nowMs = performance.now();
    if (nowMs >= this.#certificatesAtMs && !this.#isChecking) {
      this.#certificatesAtMs = nowMs + certificatesEveryMs;
      this.#isChecking = true;
      // An address that does not answer must not delay the other alerts.
      this.#checking = this.#readCertificates(signal).finally(() => {
        this.#isChecking = false;
      });
    }
    if (nowMs < this.#diskAtMs) return;
    this.#diskAtMs = nowMs + diskEveryMs;
    try {
      await this.record();
    } catch (error) {
      logger.warn({ error: describeError(error) }, "server could not be measured");
    }
  }

  /** Records what is known now. */
  async record(): Promise<void> {
    const { db, server } = this.#deps;
    const { sizeBytes, freeBytes } = await readDiskSpace(server.dataDir);
    const disk = { diskSizeBytes: sizeBytes, diskFreeBytes: freeBytes };
    const certificates = [...this.#certificates.values()];
    const hosts = this.#known?.map(({ url }) => hostOf(url)) ?? null;
    await recordServerFacts(db, { server: server.id, name: server.name, ...disk, certificates, hosts });
  }

  /** Waits for a check of certificates that has begun. Its signal ends it. */
  async settled(): Promise<void> {
    await this.#checking;
  }

  async #readCertificates(signal: AbortSignal): Promise<void> {
    const { logger, server } = this.#deps;
    const addresses = await this.#listAddresses();
    this.#known = addresses;
    const keys = new Set(addresses.map(keyOf));
    for (const key of this.#certificates.keys()) if (!keys.has(key)) this.#certificates.delete(key);
    const resolve = server.allowPrivateNetwork ? resolveHost : resolvePublicHost;
    for (const address of addresses) {
      const { url, tenantId } = address;
      const host = hostOf(url);
      try {
        const at = await readCertificateExpiry(url, signal, tenantId === null ? {} : { resolve });
        const certificate = { host, expires_at: at.toISOString(), ...(tenantId !== null && { tenant_id: tenantId }) };
        this.#certificates.set(keyOf(address), certificate);
      } catch (error) {
        if (signal.aborted) return;
        // The previous result still holds. Only the installation's own addresses are expected to answer soon.
        if (tenantId === null) this.#certificatesAtMs = performance.now() + certificateRetryMs;
        logger.info({ host, error: describeError(error) }, "certificate could not be read");
      }
    }
  }

  /** Returns the addresses of the installation, then those of agents at other hosts. */
  async #listAddresses(): Promise<readonly Address[]> {
    const { db, logger, server } = this.#deps;
    const own = server.addresses.map((url) => ({ url, tenantId: null }));
    const hosts = new Set(server.addresses.map(hostOf));
    try {
      const ofAgents = (await listAgentAddresses(db)).filter(({ url }) => URL.canParse(url) && !hosts.has(hostOf(url)));
      return [...own, ...new Map(ofAgents.map((address) => [keyOf(address), address])).values()];
    } catch (error) {
      logger.warn({ error: describeError(error) }, "addresses of agents could not be listed");
      return this.#known ?? own;
    }
  }
}

/** `tenantId` null: an address of the installation. */
interface Address {
  url: string;
  tenantId: string | null;
}

const keyOf = ({ url, tenantId }: Address) => `${tenantId ?? ""} ${hostOf(url)}`;

const hostOf = (address: string) => new URL(address).hostname;
