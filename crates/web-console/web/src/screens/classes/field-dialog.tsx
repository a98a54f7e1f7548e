// Creates, changes or deletes one field of a class, and shows the consequences.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { instance as instanceQuery, invalidate, options, page, queries, type Read } from '../../api/query.ts'
import { call, Refusal } from '../../api/request.ts'
import type { Fields, Instance } from '../../api/shapes.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { changed, isEqual } from '../../generic/changes.ts'
import { Reading } from '../../generic/failure.tsx'
import { editable } from '../../generic/form.tsx'
import { FormDialog } from '../../generic/form-dialog.tsx'
import { useMerging, useSettled } from '../../generic/merging.tsx'
import { isSeen, tagOf } from '../../generic/seen.ts'
import css from '../../kit/controls.module.css'
import { Dialog } from '../../kit/dialogs.tsx'
import { say } from '../../kit/toasts.tsx'
import { t } from '../../texts.ts'
import { filled, hintOf, INPUTS } from './field-inputs.tsx'
import { inputsOf } from './types.ts'

/** Refetches the class, its fields and the schema of its records. */
export async function invalidateFields(classPath: string) {
  void queries.invalidateQueries({ queryKey: [`${classPath}object-records/`, 'options'] })
  await invalidate(classPath)
}

/** The number of records with a value in a field, and the number of all records; null if they were not counted. */
function useTouched(classPath: string, field: Instance) {
  // Not the count of another field while that of this one is on its way.
  const { placeholderData, ...query } = page(...filled(classPath, field))
  const { data } = useQuery(query)
  return data && { filled: data.filtered_count, total: data.total_count }
}

function Touched({ classPath, field, values }: { classPath: string; field: Instance; values: Fields }) {
  const touched = useTouched(classPath, field)
  if (!touched || touched.filled === null || touched.total === null) return null
  const empty = touched.total - touched.filled
  return (
    <div className={css.notice}>
      <p>{t('field.touches', { count: touched.filled, of: touched.total })}</p>
      {values.is_required === true && field.is_required !== true && empty > 0 && (
        <p>{t('field.touches.empty', { count: empty })}</p>
      )}
    </div>
  )
}

export function FieldDialog({
  classPath,
  field,
  onDone,
}: {
  classPath: string
  field: Instance | undefined
  onDone: () => void
}) {
  const path = `${classPath}fields/`
  const described = useQuery(options(path))
  const read = useQuery({ ...instanceQuery(`${path}${field?.id}/`), enabled: field !== undefined })
  if (!described.data || (field && !read.data)) {
    const isGoingWell = !described.failureCount && !read.failureCount
    if (isGoingWell) return null
    return (
      <Dialog title={t('edit')} isOpen onClose={onDone}>
        <Reading of={[described, read]} />
      </Dialog>
    )
  }
  return <FieldForm classPath={classPath} schema={described.data.details.schema} read={read.data} onDone={onDone} />
}

function FieldForm({
  classPath,
  schema,
  read,
  onDone,
}: {
  classPath: string
  schema: Parameters<typeof inputsOf>[0]
  read: Read | undefined
  onDone: () => void
}) {
  const path = `${classPath}fields/`
  const { base, values, setValues, merged, question, settled } = useMerging(
    `${path}${read?.instance.id}/`,
    () => ({ etag: null, instance: {}, ...read, values: read ? editable(read.instance, schema) : {} }),
    (instance) => ({ instance, values: editable(instance, schema), fields: schema }),
  )
  const field = read && base.instance
  const [round, setRound] = useState(0)
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const changes = changed(base.values, values)
  const isChanged = Object.keys(changes).length > 0
  const save = async (andNew: boolean) => {
    if (field && !isChanged) return onDone()
    setIsBusy(true)
    try {
      const asked = new Set(inputsOf(schema, values, !field).map(({ alias }) => alias))
      const body = Object.fromEntries(Object.entries(field ? changes : values).filter(([alias]) => asked.has(alias)))
      if (field) await call('PATCH', `${path}${field.id}/`, { body, ifMatch: base.etag })
      else await call('POST', path, { body })
      queries.removeQueries({ queryKey: [`${path}${field?.id}/`] })
      await invalidateFields(classPath)
      say(field ? t('saved') : t('created-one', { name: `${values.label}` }))
      setError(undefined)
      if (!andNew) return onDone()
      setValues(() => ({}))
      setRound(round + 1)
    } catch (refused) {
      if (field && refused instanceof Refusal && refused.status === 412) await merged().catch(setError)
      else setError(refused)
    } finally {
      setIsBusy(false)
    }
  }
  useSettled(settled, () => void save(false))
  const fields = inputsOf(schema, values, !field).map((one) => {
    const hint = hintOf(one.alias)
    return hint ? { ...one, description: hint } : one
  })
  return (
    <FormDialog
      key={round}
      title={field ? `${field.label}` : t('class-field.new')}
      fields={fields}
      sections={[]}
      values={values}
      instance={field}
      inputs={INPUTS}
      error={error}
      isBusy={isBusy}
      isChanged={isChanged}
      submit={field ? t('save') : t('create')}
      onChange={(alias, value) =>
        setValues((now) => ({
          ...now,
          [alias]: value,
          // A default of another type would be none of this one.
          ...(alias === 'type' && { default: null }),
        }))
      }
      onSubmit={() => void save(false)}
      onSubmitAndNew={field ? undefined : () => void save(true)}
      onDone={onDone}
      above={field && <p className={css.hint}>{t('class-field.fixed', { alias: `${field.alias}` })}</p>}
    >
      {field && <Touched classPath={classPath} field={field} values={values} />}
      {question}
    </FormDialog>
  )
}

/** A field that was only moved is the same. */
const isSeenField = (shown: Instance, now: Instance) =>
  isSeen(shown, now) || isEqual({ ...plainOf(shown), position: 0 }, { ...plainOf(now), position: 0 })
const plainOf = ({ _meta, modified_at, modified_by, ...field }: Instance): Fields => field

/** Asks before the deletion of a field, and names the consequences. */
export function DeleteField({
  classPath,
  field,
  isLabel,
  onDone,
}: {
  classPath: string
  field: Instance
  isLabel: boolean
  onDone: () => void
}) {
  const touched = useTouched(classPath, field)
  const remove = async () => {
    const path = `${classPath}fields/${field.id}/`
    await call('DELETE', path, { ifMatch: await tagOf(path, field, isSeenField) })
    await invalidateFields(classPath)
    say(t('deleted'))
    onDone()
  }
  return (
    <AskFirst
      title={t('ask', { action: t('delete'), name: `${field.label}` })}
      text={t('class-field.deletes', { count: touched?.filled ?? 0 })}
      action={t('delete')}
      run={remove}
      onClose={onDone}
    >
      <p>{t('class-field.deletes.others')}</p>
      {isLabel && <p>{t('class-field.deletes.label')}</p>}
    </AskFirst>
  )
}
