// A trial of a template: the document that it generates from a record.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { anything } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Choice, Instance } from '../../api/shapes.ts'
import { Failure, Reading } from '../../generic/failure.tsx'
import { FileLine } from '../../generic/files.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Dialog } from '../../kit/dialogs.tsx'
import { Chooser } from '../../kit/fields.tsx'
import { Outcome, runOf } from '../../shared/records/document-run.tsx'
import { t } from '../../texts.ts'
import look from './classes.module.css'

export function Trial({
  classPath,
  template,
  onClose,
}: {
  classPath: string
  template: Instance
  onClose: () => void
}) {
  const [record, setRecord] = useState<Choice | null>(null)
  /** The record of the requested document. */
  const [chosenRecord, setChosenRecord] = useState<Choice | undefined>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const documents = `/api/object-records/${chosenRecord?.value}/documents/${template.id}/`
  const runQuery = useQuery({
    ...anything<Instance>(documents),
    enabled: chosenRecord !== undefined,
    staleTime: 0,
    gcTime: 0,
    refetchInterval: ({ state }) => (state.data && runOf(state.data)?.status === 'processing' ? 1000 : false),
  })
  const run = chosenRecord && runQuery.data ? runOf(runQuery.data) : null
  const isRunning = isBusy || (chosenRecord !== undefined && (runQuery.isPending || run?.status === 'processing'))
  const make = async () => {
    if (!record) return
    setIsBusy(true)
    setError(undefined)
    setChosenRecord(undefined)
    const body = { object_record: record.value, document_template: template.id }
    await call('POST', '/api/object-records/documents/', { body }).then(() => setChosenRecord(record), setError)
    setIsBusy(false)
  }
  const file = run?._meta?.labels?.document
  const isOffered = template.allow_on_demand_generation === true
  return (
    <Dialog title={t('templates.try-one', { name: `${template.name}` })} isOpen onClose={onClose}>
      {isOffered ? (
        <>
          <p className={css.hint}>{t('templates.try.hint')}</p>
          <Chooser
            name="object_record"
            label={t('templates.try.record')}
            isRequired
            autocomplete={`${classPath}object-records/autocomplete/?text__icontains=`}
            value={record?.value ?? null}
            text={record?.text}
            onChange={setRecord}
          />
        </>
      ) : (
        <p>{t('templates.try.not-offered')}</p>
      )}
      {error !== undefined && <Failure error={error} />}
      <Reading of={[runQuery]} />
      <div role="status" className={look.trial}>
        {isRunning && <progress aria-label={t('progress')} />}
        {run && run.status !== 'processing' && (
          <>
            <p className={look.outcome}>
              <Outcome run={run} />
            </p>
            {file && <FileLine file={file} />}
          </>
        )}
      </div>
      <div className={css.actions}>
        {isOffered && (
          <Button look="primary" isDisabled={isRunning || record === null} onPress={() => void make()}>
            {t('records.documents.make')}
          </Button>
        )}
        <Button look="quiet" onPress={onClose}>
          {t('close')}
        </Button>
      </div>
    </Dialog>
  )
}
