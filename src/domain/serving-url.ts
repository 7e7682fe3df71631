/** What decides where a deployment answers. */
export interface Served {
  slug: string;
  source_config: { custom_url: string | null; listener_config: { k8s_namespace?: string | null } | null };
  /** Of a data plane that serves its agents itself; null: the gateway of this server does. */
  agents_url: string | null;
}

/** Where a deployment answers: the address its user gave it, that of its data plane, or ours. */
export function servingUrl(served: Served, deploymentsUrl: string): string {
  const { slug, source_config: config, agents_url: agentsUrl } = served;
  const namespace = config.listener_config?.k8s_namespace;
  const place = agentsUrl?.replace(/\{namespace:([^}]*)\}/, (_, first) => namespace ?? first);
  return config.custom_url ?? place?.replaceAll("{slug}", slug) ?? deploymentsUrl + slug;
}
