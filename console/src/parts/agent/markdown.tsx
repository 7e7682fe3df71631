import { memo } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import gfm from "remark-gfm";
import { isCostlyMarkdown } from "../../agent/costly-markdown.ts";

/**
 * Text of an agent as markdown. HTML in it stays text, links open outside of the console without a referrer, and pictures of
 * other hosts are links, because the console loads nothing from elsewhere. A text that takes too long to format stays as it is.
 */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  if (isCostlyMarkdown(text)) return <p className="said">{text}</p>;
  return (
    <div className="prose">
      <ReactMarkdown remarkPlugins={plugins} components={components}>
        {text}
      </ReactMarkdown>
    </div>
  );
});

const plugins = [gfm];

const components: Components = {
  a: ({ href, children }) => (
    <a className="link" href={href} target="_blank" rel="noreferrer noopener">
      {children}
    </a>
  ),
  img: ({ src, alt }) => (
    <a className="link" href={String(src)} target="_blank" rel="noreferrer noopener">
      {alt || "picture"}
    </a>
  ),
  table: ({ children }) => (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a table that scrolls must be reachable by keyboard.
    <div className="table-scroll" tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
  h1: ({ children }) => <p className="prose-head">{children}</p>,
  h2: ({ children }) => <p className="prose-head">{children}</p>,
  h3: ({ children }) => <p className="prose-head">{children}</p>,
};
