// The blocks of the home page. Each sends its own queries, so that a refusal affects one block only.

import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useMemo } from 'react'
import type { Column, Instance } from '../api/shapes.ts'
import { query, read } from '../generic/address.ts'
import { failureText } from '../generic/failure.tsx'
import generic from '../generic/generic.module.css'
import { Link } from '../generic/go.tsx'
import { LineTable } from '../generic/line-table.tsx'
import { pageOf } from '../generic/shape.ts'
import { mayConfigure } from '../generic/ui-config.ts'
import { type Block, type Selection, searchOf } from '../generic/ui-contents.ts'
import css from '../kit/controls.module.css'
import { part } from '../kit/part.tsx'
import { Value } from '../kit/values.tsx'
import { t } from '../texts.ts'
import look from './blocks.module.css'
import { type OpenClass, useClass } from './records/class.ts'

const ComponentFrame = part(() => import('../generic/component-frame.tsx').then((module) => module.ComponentFrame))

type Of<K extends Block['kind']> = Extract<Block, { kind: K }>

export function Blocks({ blocks }: { blocks: Block[] }) {
  const groups: Block[][] = []
  // Consecutive counts are side by side.
  for (const block of blocks) {
    const last = groups.at(-1)
    if (block.kind === 'count' && last?.[0]?.kind === 'count') last.push(block)
    else groups.push([block])
  }
  return (
    <div className={look.blocks}>
      {groups.map((group, n) => {
        const counts = group.filter((block) => block.kind === 'count')
        const key = `${n} ${group[0]?.kind}`
        if (counts.length === 0) return group.map((block) => <One key={key} block={block} />)
        return (
          <ul key={key} className={look.counts}>
            {counts.map((block, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: blocks have no name of their own
              <Count key={at} block={block} />
            ))}
          </ul>
        )
      })}
    </div>
  )
}

function One({ block }: { block: Block }) {
  if (block.kind === 'list') return <Rows block={block} />
  if (block.kind !== 'component') return null
  return (
    <section className={generic.section}>
      {block.title && <h2>{block.title}</h2>}
      <ComponentFrame component={block.component} use="landing_page" parameters={block.parameters ?? {}} />
    </section>
  )
}

/** A class that is deleted or not visible has no block. Administrators see the reason. */
function Missing({ alias, error }: { alias: string; error: unknown }) {
  if (!mayConfigure()) return null
  const reason = error ? failureText(error) : t('interface.class.gone', { alias })
  return (
    <p className={css.notice} data-tone="warn">
      {t('interface.block.failed', { reason })}
    </p>
  )
}

function Count({ block }: { block: Of<'count'> }) {
  const { openClass, isMissing, reading } = useClass(block.class)
  const error = reading.find((one) => one.error)?.error
  if (isMissing || error) {
    return mayConfigure() ? (
      <li>
        <Missing alias={block.class} error={error} />
      </li>
    ) : null
  }
  return openClass ? <Counted block={block} openClass={openClass} /> : null
}

/**
 * The query of a selection, and the parts of it that the class does not have. Only the API knows filters over a
 * relation.
 */
function queryOf({ columns }: OpenClass, selection: Pick<Selection, 'filters' | 'ordering'>, limit: number) {
  const state = read(searchOf({ ...selection, columns: [] }), columns)
  const isOver = ([name]: [string, string]) => name.includes('.')
  const parameters = new URLSearchParams(query(state))
  for (const [name, value] of state.unknown.filter(isOver)) parameters.append(name, value)
  parameters.set('limit', `${limit}`)
  const gone = state.unknown.filter((one) => !isOver(one)).map(([name]) => name)
  return {
    parameters: `${parameters}`,
    gone: state.unknownOrdering ? [...gone, state.unknownOrdering] : gone,
  }
}

/** Parts of the selection that cannot be applied: the block shows more records, or another order. */
const Gone = ({ names }: { names: string[] }) =>
  names.length > 0 && (
    <p className={css.notice} data-tone="warn">
      {t('interface.block.gone', { names: names.join(', ') })}
    </p>
  )

function Counted({ block, openClass }: { block: Of<'count'>; openClass: OpenClass }) {
  const { resource, name } = openClass
  const { parameters, gone: ignored } = queryOf(openClass, { filters: block.filters, ordering: '' }, 1)
  const { data, error } = useQuery(pageOf(resource, parameters))
  return (
    <li className={look.count}>
      {error ? (
        <Missing alias={block.class} error={error} />
      ) : (
        <>
          <span className={look.number}>{data?.filtered_count ?? ' '}</span>
          <Link to={resource.route + searchOf({ filters: block.filters, ordering: '', columns: [] })}>
            {block.title || name}
          </Link>
          <Gone names={ignored} />
        </>
      )}
    </li>
  )
}

function Rows({ block }: { block: Of<'list'> }) {
  const { openClass, isMissing, reading } = useClass(block.class)
  const error = reading.find((one) => one.error)?.error
  if (isMissing || error) return <Missing alias={block.class} error={error} />
  if (!openClass) return null
  return (
    <section className={generic.section}>
      <h2>
        <Link to={openClass.resource.route + searchOf(block)}>{block.title || openClass.name}</Link>
      </h2>
      <Selected openClass={openClass} selection={block} limit={block.limit} title={block.title || openClass.name} />
    </section>
  )
}

/** The number of columns that fit. */
const COLUMNS = 5

/** The first records of a selection. */
export function Selected({
  openClass,
  selection,
  limit,
  title,
}: {
  openClass: OpenClass
  selection: Selection
  limit: number
  title: string
}): ReactNode {
  const { resource } = openClass
  const { parameters, gone: ignored } = queryOf(openClass, selection, limit)
  const { data, error } = useQuery(pageOf(resource, parameters))
  const { columns: chosen } = selection
  const { columns, views } = useMemo(() => columnsOf(openClass, chosen), [openClass, chosen])
  if (error) return <Missing alias={openClass.alias} error={error} />
  if (!data) return null
  return (
    <>
      <Gone names={ignored} />
      {data.results.length === 0 ? (
        <p className={generic.none}>{t('nothing-yet')}</p>
      ) : (
        <LineTable title={title} columns={columns} lines={data.results} views={views} />
      )}
    </>
  )
}

/** The columns with how each is shown: the first leads to the record. */
function columnsOf({ columns, resource }: OpenClass, chosen: string[]) {
  const aliases = chosen.length > 0 ? chosen : resource.columns.slice(0, COLUMNS)
  const shown = aliases.flatMap((alias) => columns.find((column) => column.alias === alias) ?? [])
  const views = shown.map((column, n) => [
    column.alias,
    n === 0 ? linked(resource.route, resource.label) : labelled(column),
  ])
  return { columns: shown, views: Object.fromEntries(views) }
}

/** The link to a record, with the label of the record if its first column is empty. */
const linked =
  (route: string, label: (record: Instance) => string) =>
  ({ value, instance }: { value: unknown; instance: Instance }) => (
    <Link to={`${route}/${instance.id}`}>{typeof value === 'string' && value !== '' ? value : label(instance)}</Link>
  )

const labelled =
  ({ alias, type, values }: Column) =>
  ({ instance }: { instance: Instance }) => (
    <Value type={type} values={values} label={instance._meta?.labels?.[alias]} value={instance[alias]} isShort />
  )
