import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { anything } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Choice, Instance, Json } from '../../api/shapes.ts'
import look from '../../generic/generic.module.css'
import { Link, useGo } from '../../generic/go.tsx'
import { Recent } from '../../generic/recent.tsx'
import { type InputProps, may, type PanelProps, type Parts } from '../../generic/resource.ts'
import { Copyable } from '../../kit/copyable.tsx'
import { Chooser } from '../../kit/fields.tsx'
import { labelOf, t } from '../../texts.ts'
import { MetadataCheck } from './metadata-check.tsx'
import { Tools, ToolsInput } from './tools.tsx'
import { WhatItHas } from './what-it-has.tsx'

const AGENTS = '/api/integrations/?type=ai_mcp'

/** Integrations of the type of agents. */
function Integration({ field, name, value, onChange }: InputProps) {
  const go = useGo()
  const [chosen, setChosen] = useState<Choice | null>(null)
  const read = useQuery({ ...anything<Instance>(`/api/integrations/${value}/`), enabled: value !== null && !chosen })
  const isOffered = session()?.permissions?.integrations?.create === true
  return (
    <Chooser
      name={name}
      label={labelOf(field)}
      hint={field.description}
      isRequired={field.required}
      autocomplete={AGENTS}
      value={value as string | null}
      text={value === null ? '' : (chosen?.text ?? `${read.data?.name ?? value}`)}
      more={
        isOffered
          ? {
              text: t('create-one', { one: t('integrations.one') }),
              run: () => go('/admin/integrations/new?type=ai_mcp'),
            }
          : undefined
      }
      onChange={(choice) => {
        setChosen(choice)
        onChange(choice?.value ?? null)
      }}
    />
  )
}

/** The integration by its name, as soon as that is known. */
function ToIntegration({ value }: { value: Json }) {
  const { data } = useQuery(anything<Instance>(`/api/integrations/${value}/`))
  return <Link to={`/admin/integrations/${value}`}>{`${data?.name ?? value}`}</Link>
}

const Address = ({ value }: { value: Json }) => <Copyable text={`${value}`} />

/** The settings for common agents, ready to copy. */
function Configuration({ instance }: PanelProps) {
  const { server_url: url, client_id: client } = instance
  const code = `claude mcp add --transport http --client-id ${client} --client-secret chancery ${url}`
  const vscode = JSON.stringify({ servers: { chancery: { type: 'http', url } } }, null, 2)
  const inspector = `npx @modelcontextprotocol/inspector --cli ${url} --transport http --client-id ${client} --client-secret <client_secret> --method tools/list`
  const agents: [string, string, string][] = [
    ['Claude', `${url}`, 'https://claude.ai/api/mcp/auth_callback, https://claude.com/api/mcp/auth_callback'],
    ['Claude Code', code, 'http://localhost/callback'],
    ['Visual Studio Code', vscode, 'http://127.0.0.1, http://127.0.0.1/, https://vscode.dev/redirect'],
    ['MCP Inspector', inspector, 'http://127.0.0.1/oauth/callback'],
  ]
  return (
    <section className={look.section}>
      <h2>{t('connectors.clients')}</h2>
      <p>{t('connectors.clients.text')}</p>
      {agents.map(([name, text, redirects]) => (
        <details key={name} className={look.set}>
          <summary>{name}</summary>
          <dl className={look.facts}>
            <dt>{t('connectors.copy')}</dt>
            <dd>
              <Copyable text={text} />
            </dd>
            <dt>{t('connectors.redirects')}</dt>
            <dd>
              <Copyable text={redirects} />
            </dd>
          </dl>
        </details>
      ))}
    </section>
  )
}

function Activity({ instance, path }: PanelProps) {
  if (!may(instance, 'view')) return null
  return (
    <Recent
      title="connectors.activity"
      nothing="connectors.no-activity"
      path={`${path}activity/`}
      columns={['at', 'user', 'client', 'tool', 'object_class', 'record_id', 'outcome', 'count']}
    />
  )
}

export const parts: Parts = {
  inputs: { integration: Integration, allowed_tools: ToolsInput },
  views: { integration: ToIntegration, allowed_tools: Tools, server_url: Address, client_id: Address },
  panels: [Configuration, MetadataCheck, WhatItHas, Activity],
}
