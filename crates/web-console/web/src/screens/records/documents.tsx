// Documents that the templates of a class generate from a record.

import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { anything, invalidate, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Fields, Instance, Json, Page } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import { FileLine } from '../../generic/files.tsx'
import generic from '../../generic/generic.module.css'
import type { PanelProps } from '../../generic/resource.ts'
import { Turn } from '../../generic/turn.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Dialog } from '../../kit/dialogs.tsx'
import { Select } from '../../kit/fields.tsx'
import { Outcome, runOf } from '../../shared/records/document-run.tsx'
import { t } from '../../texts.ts'
import look from './records.module.css'

const isRunning = (templates: Instance[]) => templates.some((one) => runOf(one)?.status === 'processing')

export function Documents({ instance, path }: PanelProps) {
  const all = `${path}documents/`
  const [generating, setGenerating] = useState<Instance | undefined>()
  const [error, setError] = useState<unknown>()
  const [offset, setOffset] = useState(0)
  const query = (at: number) => page(all, `ordering=name&limit=25&offset=${at}`)
  const templatesQuery = useQuery({
    ...query(offset),
    refetchInterval: ({ state }) => (isRunning(state.data?.results ?? []) ? 1000 : false),
  })
  const templates = templatesQuery.data?.results ?? []
  const isBusy = isRunning(templates)
  const wasBusy = useRef(false)
  // A document that is done may be in a field by now.
  useEffect(() => {
    if (wasBusy.current && !isBusy) void invalidate(path)
    wasBusy.current = isBusy
  }, [isBusy, path])
  if (templatesQuery.error || !templatesQuery.data || (templates.length === 0 && offset === 0)) return null
  const cancel = (template: Instance) =>
    call('POST', `${all}${template.id}/cancel/`).then(() => invalidate(all), setError)
  return (
    <section className={generic.section}>
      <h2>{t('records.documents')}</h2>
      {error !== undefined && <Failure error={error} />}
      <ul className={look.rows}>
        {templates.map((template) => {
          const run = runOf(template)
          const file = run?._meta?.labels?.document
          return (
            <li key={`${template.id}`} className={look.row}>
              <span>{`${template.name}`}</span>
              <span className={look.aside}>
                {run && <Outcome run={run} />}
                {run?.status === 'processing' ? (
                  <>
                    <progress aria-label={t('progress')} />
                    <Button look="quiet" onPress={() => void cancel(template)}>
                      {t('cancel')}
                    </Button>
                  </>
                ) : (
                  template.allow_on_demand_generation === true && (
                    <Button onPress={() => setGenerating(template)}>{t('records.documents.make')}</Button>
                  )
                )}
              </span>
              {file && <FileLine file={file} />}
            </li>
          )
        })}
      </ul>
      <Turn page={templatesQuery.data} offset={offset} size={25} query={query} onTurn={setOffset} />
      {generating && (
        <Make
          template={generating}
          record={Number(instance.id)}
          path={path}
          onClose={() => {
            setGenerating(undefined)
            setError(undefined)
          }}
        />
      )}
    </section>
  )
}

/** Asks for the field of the record that stores the document. */
function Make({
  template,
  record,
  path,
  onClose,
}: {
  template: Instance
  record: number
  path: string
  onClose: () => void
}) {
  const fields = useQuery(anything<Page>(`${path}document-fields/?limit=1000`))
  const [field, setField] = useState<Json>(null)
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const make = async () => {
    setIsBusy(true)
    const body: Fields = { object_record: record, document_template: template.id ?? null }
    if (field !== null) body.object_record_field = field
    try {
      await call('POST', '/api/object-records/documents/', { body })
      await invalidate(`${path}documents/`)
      onClose()
    } catch (refused) {
      setError(refused)
      setIsBusy(false)
    }
  }
  const choices = (fields.data?.results ?? [])
    .filter(({ is_available }) => is_available === true)
    .map(({ alias, label }) => ({ value: `${alias}`, text: `${label}` }))
  return (
    <Dialog title={t('records.documents.make-one', { name: `${template.name}` })} isOpen onClose={onClose}>
      {error !== undefined && <Failure error={error} />}
      {choices.length > 0 && (
        <Select
          name="object_record_field"
          label={t('records.documents.field')}
          hint={t('records.documents.field-hint')}
          value={field as string | null}
          choices={choices}
          onChange={setField}
        />
      )}
      <div className={css.actions}>
        <Button look="primary" isDisabled={isBusy || !fields.isFetched} onPress={() => void make()}>
          {t('records.documents.make')}
        </Button>
        <Button look="quiet" onPress={onClose}>
          {t('cancel')}
        </Button>
      </div>
    </Dialog>
  )
}
