import type { ReplicaSpec } from "../../compute.ts";
import { type Engine, EngineError } from "../engine/engine.ts";
import type { Networks } from "../networks/networks.ts";
import { containerBody, type EngineInfo, labels } from "./container.ts";
import { type ListedContainer, removeContainer } from "./replica.ts";

export interface ContainersOptions {
  engine: Engine;
  networks: Networks;
  info: EngineInfo;
  /** As in `DockerComputeOptions`, as are the two below. */
  installationId: string;
  isRootReadOnly: boolean;
  diskLimitMib: number | undefined;
}

/** Creates and lists the containers of one installation, by names and labels that only it uses. */
export class Containers {
  readonly #options: ContainersOptions;
  /** Whether the engine limits the files of a container; undefined: not tried yet. */
  #canLimitLayers: boolean | undefined;

  constructor(options: ContainersOptions) {
    this.#options = options;
  }

  /** Whether the engine limits what a replica writes into its container, known from the first creation on. */
  get isLayerLimited(): boolean {
    return this.#canLimitLayers === true;
  }

  /** Creates a container without starting it. @returns its id */
  async create(spec: ReplicaSpec, image: string, containerLabels: Record<string, string>): Promise<string> {
    const { engine, networks, info, isRootReadOnly } = this.#options;
    const context = {
      image,
      network: await networks.join(spec.tenantId, spec.replicaId),
      // The engines on PostgreSQL copy the files of an earlier revision.
      stateVolume:
        spec.artifact.rollout === "handover" || ["postgres", "aegra"].includes(spec.artifact.engine ?? "own")
          ? this.volumeOf(spec.deploymentId)
          : null,
      labels: containerLabels,
      info,
      isRootReadOnly,
    };
    const query = { name: this.#nameOf(spec.replicaId) };
    const createWith = (layerLimitMib: number | null) => {
      const body = containerBody(spec, { ...context, layerLimitMib });
      return engine.callUnless<{ Id: string }>([409], "POST", "/containers/create", { query, body });
    };
    const create = () => this.#withLayerLimit(createWith);
    const made = await create();
    if (made !== undefined) return made.Id;
    // An earlier try, whose answer was lost, has left a container.
    await removeContainer(engine, query.name);
    const again = await create();
    if (again === undefined) throw new Error(`a container named ${query.name} already exists`);
    return again.Id;
  }

  /** Creates a container with a size limit, and without one on an engine whose storage driver has none. */
  async #withLayerLimit<T>(create: (layerLimitMib: number | null) => Promise<T>): Promise<T> {
    const { diskLimitMib = null } = this.#options;
    if (diskLimitMib === null || this.#canLimitLayers === false) return create(null);
    try {
      const made = await create(diskLimitMib);
      this.#canLimitLayers = true;
      return made;
    } catch (error) {
      if (!(error instanceof EngineError && isLayerLimitUnknown.test(error.message))) throw error;
      this.#canLimitLayers = false;
      return create(null);
    }
  }

  /** Filters by name, too: containers inherit the labels of their image, also those of a build, but only we give these names. */
  async list(signal: AbortSignal): Promise<ListedContainer[]> {
    const filters = { label: [`${labels.installation}=${this.#options.installationId}`, labels.replica] };
    const query = { all: true, filters };
    const listed = await this.#options.engine.call<ListedContainer[]>("GET", "/containers/json", { query, signal });
    return listed.filter(({ Names }) => Names.some((name) => name.startsWith(`/${this.#nameOf("")}`)));
  }

  #nameOf(replicaId: string): string {
    return `pierhead-${this.#options.installationId.slice(0, 8)}-${replicaId}`;
  }

  /** Returns the name of the state volume. The engine creates it with the first container that uses it. */
  volumeOf(deploymentId: string): string {
    return `pierhead-${this.#options.installationId.slice(0, 8)}-state-${deploymentId}`;
  }
}

/** "--storage-opt is supported only for overlay over xfs with 'pquota' mount option", "... not supported for vfs", and so on. */
const isLayerLimitUnknown = /storage.?opt|quota/i;
