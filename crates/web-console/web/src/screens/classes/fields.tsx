// The fields of a class in their order.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { invalidate, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Instance, Page } from '../../api/shapes.ts'
import { Failure, Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Ordered } from '../../generic/ordered.tsx'
import { may, type PanelProps } from '../../generic/resource.ts'
import { tagOf } from '../../generic/seen.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { TextField } from '../../kit/fields.tsx'
import { useShortcuts } from '../../kit/keys.ts'
import { Tag } from '../../kit/values.tsx'
import designer from '../../shared/designer.module.css'
import { moved, type Placed, placed } from '../../shared/positions.ts'
import { type Key, t } from '../../texts.ts'
import look from './classes.module.css'
import { DeleteField, FieldDialog, invalidateFields } from './field-dialog.tsx'
import { rulesOf } from './types.ts'

const SIZE = 50
const FLAGS: [string, Key][] = [
  ['is_required', 'flag.required'],
  ['is_unique', 'flag.unique'],
  ['is_indexed', 'flag.indexed'],
]

const placeOf = ({ id, position }: Instance): Placed => ({ id: Number(id), position: Number(position) })

/** A page of the fields of a class, with one more field at each end, so that a field can be moved beyond the page. */
function useFieldPage(fieldsPath: string) {
  const [offset, setOffset] = useState(0)
  const [searched, setSearched] = useState('')
  const lead = offset > 0 && !searched ? 1 : 0
  const parameters = searched
    ? `label__icontains=${encodeURIComponent(searched)}&limit=${SIZE}&offset=${offset}`
    : `limit=${SIZE + lead + 1}&offset=${offset - lead}`
  const query = page(fieldsPath, parameters)
  const fieldsQuery = useQuery(query)
  const results = fieldsQuery.data?.results ?? []
  const count = fieldsQuery.data?.total_count ?? results.length
  return {
    query,
    shown: fieldsQuery,
    results,
    lead,
    fields: results.slice(lead, lead + SIZE),
    count,
    matching: fieldsQuery.data?.filtered_count ?? count,
    offset,
    setOffset,
    searched,
    search: (text: string) => {
      setSearched(text)
      setOffset(0)
    },
  }
}

/** Moves a field of the page, and sends the changed positions one after the other. */
function useMoves(path: string, { query, results, lead }: ReturnType<typeof useFieldPage>) {
  const fieldsPath = `${path}fields/`
  const client = useQueryClient()
  const [error, setError] = useState<unknown>()
  const sending = useRef(Promise.resolve())
  const send = async (changes: Placed[]) => {
    for (const { id, position } of changes) {
      const fieldPath = `${fieldsPath}${id}/`
      const field = results.find((candidate) => candidate.id === id) ?? {}
      // The field may have changed otherwise, but its position must be the shown one.
      const ifMatch = await tagOf(fieldPath, field, (before, now) => before.position === now.position)
      await call('PATCH', fieldPath, { body: { position }, ifMatch })
    }
    setError(undefined)
    await invalidateFields(path)
  }
  const move = (from: number, to: number) => {
    const changes = placed(results.map(placeOf), from + lead, to + lead)
    client.setQueryData<Page>(query.queryKey, (data) => {
      if (!data) return data
      const now = data.results.map((field) => {
        const change = changes.find(({ id }) => id === field.id)
        return change ? { ...field, position: change.position } : field
      })
      return { ...data, results: moved(now, from + lead, to + lead) }
    })
    sending.current = sending.current
      .then(() => send(changes))
      .catch((refused: unknown) => {
        setError(refused)
        void invalidate(fieldsPath)
      })
  }
  return { move, error }
}

export function ClassFields({ instance, path }: PanelProps) {
  const fieldPage = useFieldPage(`${path}fields/`)
  const { shown: fieldsQuery, results, fields, lead, count, searched } = fieldPage
  const { move, error } = useMoves(path, fieldPage)
  const [edited, setEdited] = useState<Instance | 'new' | undefined>()
  const [deleted, setDeleted] = useState<Instance | undefined>()
  const canEdit = may(instance, 'edit')
  useShortcuts(canEdit && !edited ? [{ keys: 'n', text: t('class-field.new'), run: () => setEdited('new') }] : [])
  return (
    <section className={generic.section} aria-label={t('class-fields')}>
      <div className={look.head}>
        <h2>
          {t('class-fields')} <span className={css.optional}>{count}</span>
        </h2>
        {canEdit && (
          <Button icon="plus" onPress={() => setEdited('new')}>
            {t('class-field.new')}
          </Button>
        )}
      </div>
      {(count > 10 || searched) && (
        <TextField
          name="field-search"
          label={t('class-fields.find')}
          isRequired
          type="search"
          value={searched}
          onChange={fieldPage.search}
        />
      )}
      <Reading of={[fieldsQuery]} />
      {error !== undefined && <Failure error={error} />}
      {fieldsQuery.data && fields.length === 0 && (
        <p className={generic.none}>{searched ? t('nothing-found') : t('class-fields.nothing')}</p>
      )}
      <Ordered
        label={t('class-fields')}
        items={fields}
        keyOf={({ id }) => `${id}`}
        nameOf={({ label }) => `${label}`}
        canMove={canEdit && !searched}
        goesOn={{ up: lead > 0, down: results.length > lead + SIZE }}
        onMove={move}
      >
        {(field) => (
          <FieldLine
            field={field}
            isLabel={instance.label_field === field.alias}
            canEdit={canEdit}
            onEdit={() => setEdited(field)}
            onDelete={() => setDeleted(field)}
          />
        )}
      </Ordered>
      <FieldPages {...fieldPage} />
      {edited && (
        <FieldDialog
          classPath={path}
          field={edited === 'new' ? undefined : edited}
          onDone={() => setEdited(undefined)}
        />
      )}
      {deleted && (
        <DeleteField
          classPath={path}
          field={deleted}
          isLabel={instance.label_field === deleted.alias}
          onDone={() => setDeleted(undefined)}
        />
      )}
    </section>
  )
}

interface FieldLineProps {
  field: Instance
  /** The field gives the records their label. */
  isLabel: boolean
  canEdit: boolean
  onEdit: () => void
  onDelete: () => void
}

function FieldLine({ field, isLabel, canEdit, onEdit, onDelete }: FieldLineProps) {
  const name = `${field.label}`
  return (
    <div className={designer.field}>
      <div className={designer.what}>
        <strong>{name}</strong> <code>{`${field.alias}`}</code>
        <div className={designer.rules}>
          <Tag>{t(`field-type.${field.type}.name` as Key)}</Tag>
          {rulesOf(field).map(({ rule, values }) => (
            <span key={rule}>{t(`rule.${rule}`, values as { [name: string]: string | number })}</span>
          ))}
          {FLAGS.map(([flag, text]) => field[flag] === true && <span key={flag}>{t(text)}</span>)}
          {isLabel && <span>{t('flag.label')}</span>}
        </div>
      </div>
      {canEdit && (
        <span className={designer.buttons}>
          <Button look="quiet" icon="pencil" aria-label={t('edit-one', { name })} onPress={onEdit} />
          <Button look="quiet" icon="trash-2" aria-label={t('delete-one', { name })} onPress={onDelete} />
        </span>
      )}
    </div>
  )
}

/** The links to the other pages of fields, if there are any. */
function FieldPages({ offset, setOffset, fields, matching }: ReturnType<typeof useFieldPage>) {
  const last = offset + fields.length
  if (offset === 0 && matching <= last) return null
  return (
    <nav className={css.actions} aria-label={t('pages')}>
      <span role="status" className={look.range}>
        {t('range', { from: offset + 1, to: last, of: matching })}
      </span>
      <Button isDisabled={offset === 0} onPress={() => setOffset(Math.max(0, offset - SIZE))}>
        {t('previous-page')}
      </Button>
      <Button isDisabled={matching <= last} onPress={() => setOffset(offset + SIZE)}>
        {t('next-page')}
      </Button>
    </nav>
  )
}
