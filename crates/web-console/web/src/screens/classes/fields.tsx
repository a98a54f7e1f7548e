// The fields of a class in their order.

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { page, wrote } from '../../api/query.ts'
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
import { DeleteField, FieldDialog, wroteFields } from './field-dialog.tsx'
import { rulesOf } from './types.ts'

const SIZE = 50
const FLAGS: [string, Key][] = [
  ['is_required', 'flag.required'],
  ['is_unique', 'flag.unique'],
  ['is_indexed', 'flag.indexed'],
]

const placeOf = ({ id, position }: Instance): Placed => ({ id: Number(id), position: Number(position) })

export function ClassFields({ instance, path }: PanelProps) {
  const fieldsPath = `${path}fields/`
  const [offset, setOffset] = useState(0)
  const [searched, setSearched] = useState('')
  const [edited, setEdited] = useState<Instance | 'new' | undefined>()
  const [deleted, setDeleted] = useState<Instance | undefined>()
  const [error, setError] = useState<unknown>()
  const client = useQueryClient()
  // One more at each end, so that a field can be moved over the end of a page.
  const lead = offset > 0 && !searched ? 1 : 0
  const parameters = searched
    ? `label__icontains=${encodeURIComponent(searched)}&limit=${SIZE}&offset=${offset}`
    : `limit=${SIZE + lead + 1}&offset=${offset - lead}`
  const query = page(fieldsPath, parameters)
  const shown = useQuery(query)
  const canEdit = may(instance, 'edit')
  const sending = useRef(Promise.resolve())
  useShortcuts(canEdit && !edited ? [{ keys: 'n', text: t('class-field.new'), run: () => setEdited('new') }] : [])
  const results = shown.data?.results ?? []
  const fields = results.slice(lead, lead + SIZE)
  const count = shown.data?.total_count ?? results.length
  const found = shown.data?.filtered_count ?? count
  const last = offset + fields.length
  const move = (from: number, to: number) => {
    const changes = placed(results.map(placeOf), from + lead, to + lead)
    client.setQueryData<Page>(query.queryKey, (data) => {
      if (!data) return data
      const now = data.results.map((one) => {
        const change = changes.find(({ id }) => id === one.id)
        return change ? { ...one, position: change.position } : one
      })
      return { ...data, results: moved(now, from + lead, to + lead) }
    })
    sending.current = sending.current
      .then(async () => {
        for (const { id, position } of changes) {
          const one = `${fieldsPath}${id}/`
          const shown = results.find((field) => field.id === id) ?? {}
          // It may be another one otherwise by now, but stands where it was seen.
          const ifMatch = await tagOf(one, shown, (before, now) => before.position === now.position)
          await call('PATCH', one, { body: { position }, ifMatch })
        }
        setError(undefined)
        await wroteFields(path)
      })
      .catch((refused: unknown) => {
        setError(refused)
        void wrote(fieldsPath)
      })
  }
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
          onChange={(text) => {
            setSearched(text)
            setOffset(0)
          }}
        />
      )}
      <Reading of={[shown]} />
      {error !== undefined && <Failure error={error} />}
      {shown.data && fields.length === 0 && (
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
          <div className={designer.field}>
            <div className={designer.what}>
              <strong>{`${field.label}`}</strong> <code>{`${field.alias}`}</code>
              <div className={designer.rules}>
                <Tag>{t(`field-type.${field.type}.name` as Key)}</Tag>
                {rulesOf(field).map(({ rule, values }) => (
                  <span key={rule}>{t(`rule.${rule}`, values as { [name: string]: string | number })}</span>
                ))}
                {FLAGS.map(([flag, text]) => field[flag] === true && <span key={flag}>{t(text)}</span>)}
                {instance.label_field === field.alias && <span>{t('flag.label')}</span>}
              </div>
            </div>
            {canEdit && (
              <span className={designer.buttons}>
                <Button
                  look="quiet"
                  icon="pencil"
                  aria-label={t('edit-one', { name: `${field.label}` })}
                  onPress={() => setEdited(field)}
                />
                <Button
                  look="quiet"
                  icon="trash-2"
                  aria-label={t('delete-one', { name: `${field.label}` })}
                  onPress={() => setDeleted(field)}
                />
              </span>
            )}
          </div>
        )}
      </Ordered>
      {(offset > 0 || found > last) && (
        <nav className={css.actions} aria-label={t('pages')}>
          <span role="status" className={look.range}>
            {t('range', { from: offset + 1, to: last, of: found })}
          </span>
          <Button isDisabled={offset === 0} onPress={() => setOffset(Math.max(0, offset - SIZE))}>
            {t('previous-page')}
          </Button>
          <Button isDisabled={found <= last} onPress={() => setOffset(offset + SIZE)}>
            {t('next-page')}
          </Button>
        </nav>
      )}
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
