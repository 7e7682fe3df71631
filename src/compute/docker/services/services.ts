import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { Header } from "tar";
import { unlessAborted } from "../../abort.ts";
import { Engine } from "../engine/engine.ts";
import { Images, type RegistryCredential } from "../images/images.ts";
import { closeNetwork, networkName, openNetwork } from "../networks/networks.ts";
import { type EngineInfo, hostLimits, labels } from "../replicas/container.ts";
import { readLastLines } from "../replicas/container-log.ts";
import { removeContainer } from "../replicas/replica.ts";

/** A container that is kept running beside the replicas of a deployment, with a volume of its own. */
export interface Service {
  /** Unique in the installation. */
  name: string;
  /** Whose agents reach it, under `hostOf(name)`. */
  tenantId: string;
  image: string;
  command: string[];
  env: Record<string, string>;
  /** Texts by their path from the root; every user in the container may read them. */
  files: Record<string, string>;
  /** Where its volume is mounted; all else is lost with the container. */
  volumeDirectory: string;
  /** Reachable on the loopback of this machine, too. */
  port: number;
  stopSignal: string;
  cpuLimitCores: number;
  memoryLimitMib: number;
}

export interface ServicesOptions {
  /** As of `DockerComputeOptions`. */
  host: string;
  installationId: string;
  credentialOf: (uri: string) => Promise<RegistryCredential | null>;
}

interface Inspected {
  Id: string;
  Image: string;
  State: { Running: boolean; Restarting: boolean };
  Config: { Labels: Record<string, string> };
  NetworkSettings: { Ports: Record<string, { HostPort: string }[] | null> };
}

/** What a database needs to end in order; then the engine kills it. */
const stopTimeoutS = 30;

/** How long the image of a service is waited for at a time. */
const pullWaitMs = 15_000;

/** Images of databases begin as root, hand their volume to a user of their own, and go on as that. */
const capabilities = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];

/** How much of its memory a container may share between its processes. */
const sharedMemoryShare = 1 / 4;

/** Keeps services of one installation in an engine. Who calls makes sure that one service is not changed twice at a time. */
export class Services {
  readonly #options: ServicesOptions;
  readonly #life = new AbortController();
  readonly #pulls = new Map<string, Promise<string>>();
  #opened: Promise<{ engine: Engine; images: Images; info: EngineInfo }> | undefined;

  constructor(options: ServicesOptions) {
    this.#options = options;
  }

  /** The name of its container and its volume, by which agents of its workspace find it. */
  hostOf(name: string): string {
    return `pierhead-${this.#options.installationId.slice(0, 8)}-${name}`;
  }

  /**
   * Makes it, or what is gone of it; one that should be another, or does not stay up, is made again around its volume. While
   * it does well, it goes on with the image that it began with, whatever the name means later.
   * @returns where it listens, in time.
   * @throws UnusableSpec when there is no such image; EngineError, EngineUnreachable.
   */
  async ensure(service: Service, signal: AbortSignal): Promise<{ host: string; port: number }> {
    const { engine, images } = await this.#open();
    const name = this.hostOf(service.name);
    const found = await this.#find(engine, name);
    const facts = factsOf(service);
    const isWell = found?.State.Running === true && !found.State.Restarting;
    if (isWell && found.Config.Labels[labels.facts] === facts) return addressOf(found, service);
    const image = isWell ? found.Image : await this.#image(images, service.image, signal);
    if (found !== undefined) await this.#end(engine, name);
    signal.throwIfAborted();
    const containerId = await this.#create(service, { image, facts });
    const body = Readable.from(tarOf(service.files));
    await engine.call("PUT", `/containers/${containerId}/archive`, { query: { path: "/" }, body });
    await engine.call("POST", `/containers/${containerId}/start`, { timeoutMs: 120_000 });
    return addressOf((await this.#find(engine, name)) as Inspected, service);
  }

  /** What it wrote last, when it does not stay up; null: it does. */
  async failureOutput(name: string): Promise<string | null> {
    const { engine } = await this.#open();
    const found = await this.#find(engine, this.hostOf(name));
    if (found === undefined || (found.State.Running && !found.State.Restarting)) return null;
    return (await readLastLines(engine, found.Id, 5)).join("\n");
  }

  /** Ends it and removes all of it, its volume included; what is gone already is no error. */
  async remove(name: string): Promise<void> {
    const { engine } = await this.#open();
    const found = await this.#find(engine, this.hostOf(name));
    if (found !== undefined) await removeContainer(engine, this.hostOf(name));
    await engine.callUnless([404], "DELETE", `/volumes/${this.hostOf(name)}`);
    const tenantId = found?.Config.Labels[labels.tenant];
    if (tenantId !== undefined) await closeNetwork(engine, networkName(this.#options.installationId, tenantId));
  }

  async close(): Promise<void> {
    this.#life.abort(new Error("the services are closed"));
    (await this.#opened?.catch(() => undefined))?.engine.close();
  }

  /** A pull goes on for who asks again: the first one may have less time than it takes. */
  async #image(images: Images, uri: string, signal: AbortSignal): Promise<string> {
    const pulling = this.#pulls.get(uri) ?? images.ensure({ digest: "", uri }, this.#life.signal);
    this.#pulls.set(uri, pulling);
    const forget = () => this.#pulls.get(uri) === pulling && this.#pulls.delete(uri);
    pulling.then(forget, forget);
    const patience = AbortSignal.timeout(pullWaitMs);
    return unlessAborted(() => pulling, AbortSignal.any([signal, patience])).catch((error: unknown) => {
      throw patience.aborted ? new Error(`its image ${uri} is being pulled`) : error;
    });
  }

  /** With the first who needs it: an engine that is away then is asked again by the next. */
  #open() {
    this.#opened ??= this.#connect().catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    return this.#opened;
  }

  async #connect() {
    const engine = await new Engine(this.#options.host).open();
    const info = await engine.call<EngineInfo>("GET", "/info");
    return { engine, info, images: new Images(engine, this.#options) };
  }

  #find(engine: Engine, name: string): Promise<Inspected | undefined> {
    return engine.callUnless<Inspected>([404], "GET", `/containers/${name}/json`);
  }

  async #end(engine: Engine, name: string): Promise<void> {
    const timeoutMs = (stopTimeoutS + 30) * 1_000;
    await engine.callUnless([304, 404], "POST", `/containers/${name}/stop`, { query: { t: stopTimeoutS }, timeoutMs });
    await removeContainer(engine, name);
  }

  async #create(service: Service, made: { image: string; facts: string }): Promise<string> {
    const { engine, info } = await this.#open();
    const { installationId } = this.#options;
    const name = this.hostOf(service.name);
    const own = { [labels.installation]: installationId, [labels.service]: service.name };
    const port = `${service.port}/tcp`;
    const body = {
      Image: made.image,
      Cmd: service.command,
      Env: Object.entries(service.env).map(([key, value]) => `${key}=${value}`),
      Labels: { ...own, [labels.tenant]: service.tenantId, [labels.facts]: made.facts },
      ExposedPorts: { [port]: {} },
      Healthcheck: { Test: ["NONE"] },
      StopSignal: service.stopSignal,
      StopTimeout: stopTimeoutS,
      HostConfig: {
        ...hostLimits(service, info),
        Init: true,
        CapAdd: capabilities,
        ShmSize: Math.floor(service.memoryLimitMib * 1024 * 1024 * sharedMemoryShare),
        NetworkMode: await openNetwork(engine, installationId, service.tenantId),
        PortBindings: { [port]: [{ HostIp: "127.0.0.1", HostPort: "" }] },
        // Comes back with the engine, and after a fault.
        RestartPolicy: { Name: "unless-stopped" },
        Mounts: [
          {
            Type: "volume",
            Source: name,
            Target: service.volumeDirectory,
            VolumeOptions: { Labels: own, NoCopy: true },
          },
        ],
      },
    };
    return (await engine.call<{ Id: string }>("POST", "/containers/create", { query: { name }, body })).Id;
  }
}

/** Tells whether a container is what is wanted now. The image does not count, and its secrets cannot be read from it. */
function factsOf({ image: _, tenantId: __, ...service }: Service): string {
  return createHash("sha256").update(JSON.stringify(service)).digest("hex");
}

function addressOf({ NetworkSettings }: Inspected, { port }: Service): { host: string; port: number } {
  return { host: "127.0.0.1", port: Number(NetworkSettings.Ports[`${port}/tcp`]?.[0]?.HostPort ?? 0) };
}

function* tarOf(files: Service["files"]): Generator<Buffer> {
  for (const [path, text] of Object.entries(files)) {
    const bytes = Buffer.from(text);
    const header = new Header({ path, mode: 0o444, size: bytes.length, type: "File", mtime: new Date(0) });
    header.encode();
    yield header.block as Buffer;
    yield Buffer.concat([bytes, Buffer.alloc(-bytes.length & 511)]);
  }
  yield Buffer.alloc(1_024);
}
