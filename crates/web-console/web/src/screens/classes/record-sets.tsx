// The permission sets for single records of a class: the actions for people, and those for the agents of each
// connector.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { invalidate, options, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Field, Fields, Instance } from '../../api/shapes.ts'
import { type Granted, grant, revoke } from '../../generic/actions.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { changed, isEqual } from '../../generic/changes.ts'
import { Reading } from '../../generic/failure.tsx'
import { FormDialog } from '../../generic/form-dialog.tsx'
import generic from '../../generic/generic.module.css'
import { MatrixView } from '../../generic/matrix.tsx'
import { useMerged, useSettled } from '../../generic/merging.tsx'
import { may, type PanelProps } from '../../generic/resource.ts'
import { inList, isSeen, removeSeen } from '../../generic/seen.ts'
import { Turn } from '../../generic/turn.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Icon } from '../../kit/icons.tsx'
import { say } from '../../kit/toasts.tsx'
import { EditOrDelete } from '../../shared/permission-sets.tsx'
import { named, t } from '../../texts.ts'
import look from './classes.module.css'

/** The column of the people is that of no connector. */
const PEOPLE = 'people'

const SIZE = 25

interface Column {
  id: string
  name: string
}

/** The actions of people and of the agents of each connector. */
type Holdings = { [column: string]: Granted }

function holdingsOf(set: Instance | undefined): Holdings {
  const agents = Array.isArray(set?.mcp_permissions) ? (set.mcp_permissions as Fields[]) : []
  return {
    [PEOPLE]: (set?.permissions ?? {}) as Granted,
    ...Object.fromEntries(agents.map(({ connector, permissions }) => [`${connector}`, (permissions ?? {}) as Granted])),
  }
}

function columnsOf(set: Instance | undefined): Column[] {
  const names = (set?._meta?.labels?.connectors ?? {}) as { [id: string]: { name?: string } | string }
  const nameOf = (id: string) => {
    const entry = names[id]
    return typeof entry === 'string' ? entry : (entry?.name ?? id)
  }
  const ids = Object.keys(holdingsOf(set)).filter((id) => id !== PEOPLE)
  return [{ id: PEOPLE, name: t('record-sets.people') }, ...ids.map((id) => ({ id, name: nameOf(id) }))]
}

const has = (granted: Granted | undefined, resource: string, action: string) =>
  granted?.[resource]?.includes(action) === true

/** Connectors never have more than the set. */
const within = (granted: Granted, set: Granted): Granted =>
  Object.fromEntries(
    Object.entries(granted).map(([name, actions]) => [name, actions.filter((one) => has(set, name, one))]),
  )

function Table({
  fields,
  columns,
  holdings,
  onChange,
}: {
  fields: Field[]
  columns: Column[]
  holdings: Holdings
  onChange?: (holdings: Holdings) => void
}) {
  const set = (column: string, resource: string, action: string, isGiven: boolean) => {
    const changed = (isGiven ? grant : revoke)(fields, holdings[column] ?? {}, resource, action)
    const next = { ...holdings, [column]: changed }
    const people = next[PEOPLE] ?? {}
    onChange?.(
      Object.fromEntries(
        Object.entries(next).map(([id, granted]) => [id, id === PEOPLE ? granted : within(granted, people)]),
      ),
    )
  }
  const rows = fields.flatMap((field) =>
    (field.values ?? []).map(({ value }): [string, string] => [field.alias, `${value}`]),
  )
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <div className={generic.scroll} tabIndex={0} role="region" aria-label={t('record-sets.table')}>
      <table className={`${generic.matrix} ${look.sets}`}>
        <thead>
          <tr>
            <td />
            {columns.map(({ id, name }) => (
              <th key={id} scope="col" className={look.column}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([resource, action]) => {
            const name = `${named('resource', resource)}: ${named('action', action)}`
            return (
              <tr key={name}>
                <th scope="row">{name}</th>
                {columns.map((column) => {
                  const isHeld = has(holdings[column.id], resource, action)
                  if (!onChange) {
                    return (
                      <td key={column.id}>
                        {isHeld && (
                          <span className={look.granted}>
                            <Icon name="check" />
                            <span className="hidden">{t('yes')}</span>
                          </span>
                        )}
                      </td>
                    )
                  }
                  const isBeyond = column.id !== PEOPLE && !has(holdings[PEOPLE], resource, action)
                  return (
                    <td key={column.id} title={isBeyond ? t('record-sets.beyond') : undefined}>
                      <label>
                        <span className="hidden">
                          {`${column.name}, ${name}${isBeyond ? ` (${t('record-sets.beyond')})` : ''}`}
                        </span>
                        <input
                          type="checkbox"
                          checked={isHeld}
                          disabled={isBeyond}
                          onChange={(event) => set(column.id, resource, action, event.target.checked)}
                        />
                      </label>
                    </td>
                  )
                })}
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

/** A set as its form has it: the name, and a field for each column. */
const permissionFields = (set: Instance | undefined): Fields => ({ name: set?.name ?? '', ...holdingsOf(set) })

export function RecordSets({ instance, path: classPath }: PanelProps) {
  const path = `${classPath}record-permission-sets/`
  const canChange = may(instance, 'edit_perm_set')
  const described = useQuery(options(path))
  const [offset, setOffset] = useState(0)
  const query = (at: number) => page(path, `limit=${SIZE}&offset=${at}`)
  const setsQuery = useQuery(query(offset))
  const [edited, setEdited] = useState<Instance | 'new' | undefined>()
  const [deleted, setDeleted] = useState<Instance | undefined>()
  const schema = described.data?.details.schema ?? []
  const fields = schema.find(({ alias }) => alias === 'permissions')?.schema ?? []
  const remove = async (set: Instance) => {
    await removeSeen(path, set)
    setDeleted(undefined)
    await invalidate(path)
  }
  const most = described.data?.restrictions?.limit_items
  const count = setsQuery.data?.total_count ?? 0
  return (
    <section className={generic.section} aria-label={t('record-sets')}>
      <h2>
        {t('record-sets')} <span className={css.optional}>{most ? t('count-of', { count, of: most }) : count}</span>
      </h2>
      <p className={css.hint}>{t('record-sets.hint')}</p>
      <Reading of={[described, setsQuery]} />
      {setsQuery.data?.results.map((set) => (
        <details key={`${set.id}`} className={generic.set}>
          <summary>{`${set.name}`}</summary>
          <Table fields={fields} columns={columnsOf(set)} holdings={holdingsOf(set)} />
          {canChange && <EditOrDelete onEdit={() => setEdited(set)} onDelete={() => setDeleted(set)} />}
        </details>
      ))}
      <Turn page={setsQuery.data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
      {canChange && (
        <div>
          <Button icon="plus" isDisabled={most !== undefined && count >= most} onPress={() => setEdited('new')}>
            {t('record-sets.add')}
          </Button>
        </div>
      )}
      {edited && described.data && (
        <Edit
          key={edited === 'new' ? '' : `${edited.id}`}
          path={path}
          schema={schema}
          fields={fields}
          set={edited === 'new' ? undefined : edited}
          onMade={setEdited}
          onDone={() => setEdited(undefined)}
        />
      )}
      {deleted && (
        <AskFirst
          title={t('ask', { action: t('delete'), name: `${deleted.name}` })}
          text={t('record-sets.deletes')}
          action={t('delete')}
          run={() => remove(deleted)}
          onClose={() => setDeleted(undefined)}
        />
      )}
    </section>
  )
}

function Edit({
  path,
  schema,
  fields,
  set,
  onMade,
  onDone,
}: {
  path: string
  schema: Field[]
  fields: Field[]
  set: Instance | undefined
  /** A new set has connectors only after its creation. */
  onMade: (set: Instance) => void
  onDone: () => void
}) {
  const [shownSet, setShownSet] = useState(set)
  const connectorColumns = columnsOf(shownSet)
  const { base, values, setValues, take, question, settled } = useMerged(
    permissionFields(set),
    [
      ...schema.filter(({ alias }) => alias === 'name'),
      ...connectorColumns.map((column) => ({ alias: column.id, label: column.name, type: 'object', required: false })),
    ],
    Object.fromEntries(connectorColumns.map((column) => [column.id, MatrixView])),
  )
  const { name = '', ...columns } = values
  const holdings = columns as Holdings
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const { name: newName, [PEOPLE]: permissions, ...agents } = changed(base, values)
  const isChanged = !isEqual(base, values)
  const save = async () => {
    setIsBusy(true)
    try {
      if (shownSet) {
        const now = await inList(path, shownSet.id)
        if (!isSeen(shownSet, now)) {
          setShownSet(now)
          take({ values: permissionFields(now), by: now, onBack: () => setShownSet(shownSet) })
          setIsBusy(false)
          return
        }
        const mcp_permissions = Object.entries(agents).map(([id, granted]) => ({
          connector: Number(id),
          permissions: granted,
        }))
        await call('PATCH', `${path}${shownSet.id}/`, {
          body: {
            ...(newName !== undefined && { name: newName }),
            ...(permissions !== undefined && { permissions }),
            ...(mcp_permissions.length > 0 && { mcp_permissions }),
          },
        })
      }
      const body = { name, permissions: holdings[PEOPLE] ?? {} }
      const made = shownSet ? undefined : (await call<Instance>('POST', path, { body })).data
      say(t('saved'))
      await invalidate(path)
      const hasAgents = Array.isArray(made?.mcp_permissions) && made.mcp_permissions.length > 0
      if (made && hasAgents) onMade(made)
      else onDone()
    } catch (refused) {
      setError(refused)
      setIsBusy(false)
    }
  }
  useSettled(settled, () => void save())
  return (
    <>
      <FormDialog
        title={set ? `${set.name}` : t('record-sets.add')}
        fields={schema.filter(({ alias }) => alias === 'name')}
        sections={[]}
        values={{ name }}
        instance={set}
        error={error}
        isBusy={isBusy}
        isChanged={isChanged}
        submit={t('save')}
        onChange={(_, value) => setValues((now) => ({ ...now, name: value }))}
        onSubmit={() => void save()}
        onDone={onDone}
      >
        <Table
          fields={fields}
          columns={connectorColumns}
          holdings={holdings}
          onChange={(granted) => setValues((now) => ({ ...now, ...granted }))}
        />
      </FormDialog>
      {question}
    </>
  )
}
