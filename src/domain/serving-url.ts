/** The settings that determine where a deployment is served. */
export interface Served {
  slug: string;
  source_config: { custom_url: string | null; listener_config: { k8s_namespace?: string | null } | null };
  /** Address template of a data plane that serves its agents itself; null: the gateway of this server does. */
  agents_url: string | null;
}

/** Returns the address of a deployment: its custom URL, that of its data plane, or that of this server's gateway. */
export function servingUrl(served: Served, deploymentsUrl: string): string {
  const { slug, source_config: config, agents_url: agentsUrl } = served;
  const namespace = config.listener_config?.k8s_namespace;
  const place = agentsUrl?.replace(/\{namespace:([^}]*)\}/, (_, first) => namespace ?? first);
  return config.custom_url ?? place?.replaceAll("{slug}", slug) ?? deploymentsUrl + slug;
}
