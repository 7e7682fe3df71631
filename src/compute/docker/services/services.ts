import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { Header } from "tar";
import { unlessAborted } from "../../../base/unless-aborted.ts";
import { Engine } from "../engine/engine.ts";
import { Images, type RegistryCredential } from "../images/images.ts";
import { closeNetwork, networkName, openNetwork } from "../networks/networks.ts";
import { type EngineInfo, hostLimits, labels } from "../replicas/container.ts";
import { readLastLines } from "../replicas/container-log.ts";
import { removeContainer } from "../replicas/replica.ts";

/** A long-running container with its own volume beside the replicas of a deployment, for example a database. */
export interface Service {
  /** Unique in the installation. */
  name: string;
  /** Workspace whose agents reach it, under `hostOf(name)`. */
  tenantId: string;
  image: string;
  command: string[];
  env: Record<string, string>;
  /** File contents by path from the root. Every user in the container may read them. */
  files: Record<string, string>;
  /** Where its volume is mounted. All other data is lost with the container. */
  volumeDirectory: string;
  /** Also reachable on the loopback interface of this machine. */
  port: number;
  stopSignal: string;
  cpuLimitCores: number;
  memoryLimitMib: number;
}

export interface ServicesOptions {
  /** As in `DockerComputeOptions`. */
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

/** Time for a database to shut down cleanly before the engine kills it. */
const stopTimeoutS = 30;

/** How long one call waits for the image of a service. */
const pullWaitMs = 15_000;

/** Database images start as root, hand their volume to a user of their own, and continue as that user. */
const capabilities = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];

/** Share of its memory that a container may use as shared memory. */
const sharedMemoryShare = 1 / 4;

/** Runs the services of one installation in an engine. The caller must not change the same service concurrently. */
export class Services {
  readonly #options: ServicesOptions;
  readonly #life = new AbortController();
  readonly #pulls = new Map<string, Promise<string>>();
  #opened: Promise<{ engine: Engine; images: Images; info: EngineInfo }> | undefined;

  constructor(options: ServicesOptions) {
    this.#options = options;
  }

  /** Returns the name of the container and its volume, which is also its hostname for agents of its workspace. */
  hostOf(name: string): string {
    return `pierhead-${this.#options.installationId.slice(0, 8)}-${name}`;
  }

  /**
   * Creates a service, or what is missing of it. A container with other settings, or one that does not stay up, is created
   * again with the same volume. A healthy one keeps its image, even if the image name means another image by now.
   * @returns its address. The service may not accept connections yet.
   * @throws UnusableSpec when the image does not exist; EngineError, EngineUnreachable.
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

  /** Returns the last output of a service that does not stay up; null: it is running. */
  async failureOutput(name: string): Promise<string | null> {
    const { engine } = await this.#open();
    const found = await this.#find(engine, this.hostOf(name));
    if (found === undefined || (found.State.Running && !found.State.Restarting)) return null;
    return (await readLastLines(engine, found.Id, 5)).join("\n");
  }

  /** Stops a service and removes its container and its volume. A missing one is no error. */
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

  /** Waits a limited time for an image. The pull continues for the next call, because it may take longer than one caller waits. */
  async #image(images: Images, uri: string, signal: AbortSignal): Promise<string> {
    const pulling = this.#pulls.get(uri) ?? images.ensure({ digest: "", uri }, this.#life.signal);
    this.#pulls.set(uri, pulling);
    const forget = () => this.#pulls.get(uri) === pulling && this.#pulls.delete(uri);
    pulling.then(forget, forget);
    const waitLimit = AbortSignal.timeout(pullWaitMs);
    return unlessAborted(() => pulling, AbortSignal.any([signal, waitLimit])).catch((error: unknown) => {
      throw waitLimit.aborted ? new Error(`its image ${uri} is still being pulled`) : error;
    });
  }

  /** Connects on first use. If the engine is unreachable, the next call tries again. */
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
        // Restarts with the engine and after a crash.
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

/** Returns a hash of the settings. Image and tenant are left out; secrets cannot be derived from it. */
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
