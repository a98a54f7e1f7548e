// The document templates of a class: upload, check, warnings, and the fields to copy into a document.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { instance as instanceQuery, invalidate, options, page, type Read } from '../../api/query.ts'
import { call, Refusal } from '../../api/request.ts'
import type { Field, Instance, Json } from '../../api/shapes.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { changed } from '../../generic/changes.ts'
import { Reading, sayError } from '../../generic/failure.tsx'
import { Files, type Kept } from '../../generic/files.tsx'
import { editable } from '../../generic/form.tsx'
import { FormDialog } from '../../generic/form-dialog.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useHere } from '../../generic/go.tsx'
import { useMerging, useSettled } from '../../generic/merging.tsx'
import type { InputProps } from '../../generic/resource.ts'
import { saveFile, sizeOf } from '../../generic/save.ts'
import { tagOf } from '../../generic/seen.ts'
import { Turn } from '../../generic/turn.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Dialog } from '../../kit/dialogs.tsx'
import { say } from '../../kit/toasts.tsx'
import { Moment } from '../../kit/values.tsx'
import { labelOf, t } from '../../texts.ts'
import look from './classes.module.css'
import { Report } from './template-check.tsx'
import { Tags } from './template-tags.tsx'
import { Trial } from './template-trial.tsx'

const SIZE = 25

export function Templates() {
  const id = useHere().path.split('/')[3] ?? ''
  return <TemplatesOf key={id} classPath={`/api/object-classes/${id}/`} route={`/admin/classes/${id}`} />
}

const fileOf = (template: Instance): Kept | undefined =>
  ((template._meta?.labels?.files ?? {}) as unknown as { [id: string]: Kept })[`${template.template_file}`]

function TemplatesOf({ classPath, route }: { classPath: string; route: string }) {
  const path = `${classPath}document-templates/`
  const [offset, setOffset] = useState(0)
  const owner = useQuery(instanceQuery(classPath))
  const described = useQuery(options(path))
  const query = (at: number) => page(path, `ordering=name&limit=${SIZE}&offset=${at}`)
  const templatesQuery = useQuery(query(offset))
  const [edited, setEdited] = useState<Instance | 'new' | undefined>()
  const [deleted, setDeleted] = useState<Instance | undefined>()
  const [tried, setTried] = useState<Instance | undefined>()
  const remove = async (template: Instance) => {
    const one = `${path}${template.id}/`
    await call('DELETE', one, { ifMatch: await tagOf(one, template) }).finally(() => invalidate(path))
    setDeleted(undefined)
    say(t('deleted'))
  }
  return (
    <>
      <nav className={generic.trail} aria-label={t('trail')}>
        <Link to="/admin/classes">{t('object-classes')}</Link>
        {' / '}
        <Link to={route}>{`${owner.data?.instance.name ?? ''}`}</Link>
      </nav>
      <header className={generic.head}>
        <h1 tabIndex={-1}>{t('document-templates')}</h1>
        <div className={generic.spacer} />
        {described.data && (
          <Button look="primary" icon="plus" onPress={() => setEdited('new')}>
            {t('create-one', { one: t('templates.one') })}
          </Button>
        )}
      </header>
      <Reading of={[owner, described, templatesQuery]} />
      {templatesQuery.data && (
        <div className={generic.main}>
          <section className={generic.section} aria-label={t('document-templates')}>
            {templatesQuery.data.results.length === 0 && <p className={generic.none}>{t('templates.nothing')}</p>}
            <ul className={generic.plain}>
              {templatesQuery.data.results.map((template) => (
                <One
                  key={`${template.id}`}
                  template={template}
                  onTry={() => setTried(template)}
                  onEdit={() => setEdited(template)}
                  onDelete={() => setDeleted(template)}
                />
              ))}
            </ul>
            <Turn page={templatesQuery.data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
          </section>
          <Tags classPath={classPath} />
        </div>
      )}
      {edited && described.data && (
        <EditOne
          path={path}
          schema={described.data.details.schema}
          id={edited === 'new' ? undefined : Number(edited.id)}
          onDone={() => setEdited(undefined)}
        />
      )}
      {tried && <Trial classPath={classPath} template={tried} onClose={() => setTried(undefined)} />}
      {deleted && (
        <AskFirst
          title={t('ask', { action: t('delete'), name: `${deleted.name}` })}
          text={t('templates.deletes')}
          action={t('delete')}
          run={() => remove(deleted)}
          onClose={() => setDeleted(undefined)}
        />
      )}
    </>
  )
}

interface OneProps {
  template: Instance
  onTry: () => void
  onEdit: () => void
  onDelete: () => void
}

function One({ template, onTry, onEdit, onDelete }: OneProps) {
  const name = `${template.name}`
  const file = fileOf(template)
  const { warning } = template
  return (
    <li className={generic.set}>
      <div className={generic.head}>
        <strong>{name}</strong>
        {template.allow_on_demand_generation === false && <span className={css.tag}>{t('templates.not-offered')}</span>}
        <div className={look.acts}>
          <Button look="quiet" aria-label={`${t('try-it')}: ${name}`} onPress={onTry}>
            {t('try-it')}
          </Button>
          {file?.url && (
            <Button
              look="quiet"
              icon="download"
              aria-label={t('templates.download', { name })}
              onPress={() => void saveFile(`${file.url}`, file.name).catch(sayError)}
            />
          )}
          <Button look="quiet" icon="pencil" aria-label={t('edit-one', { name })} onPress={onEdit} />
          <Button look="quiet" icon="trash-2" aria-label={t('delete-one', { name })} onPress={onDelete} />
        </div>
      </div>
      <p className={css.hint}>
        {typeof template.description === 'string' && template.description && `${template.description} · `}
        {file && `${file.name} (${sizeOf(Number(file.size))}) · `}
        <Moment value={`${template.modified_at}`} />
      </p>
      {typeof warning === 'string' && warning && (
        <p className={css.notice} data-tone="warn">
          {warning}
        </p>
      )}
    </li>
  )
}

/** The file: the stored one, or another one in its place. */
function TemplateFile({ field, name, value, onChange, instance }: InputProps) {
  const file = instance && fileOf(instance)
  return (
    <Files
      name={name}
      label={labelOf(field)}
      hint={t('templates.file.hint')}
      isRequired
      value={value === null ? [] : [value]}
      most={1}
      accept=".docx"
      known={file && { [`${instance.template_file}`]: file }}
      onChange={([first]) => onChange(first ?? null)}
    />
  )
}

/** The errors of a document have a name that no field has. */
function plain(error: unknown): unknown {
  if (!(error instanceof Refusal) || error.body.error === undefined) return error
  const { error: detail, ...rest } = error.body
  return error.saying({ ...rest, detail })
}

const INPUTS = { template_file: TemplateFile }
const ASKED = ['name', 'description', 'template_file', 'allow_on_demand_generation']

interface EditProps {
  path: string
  schema: Field[]
  onDone: () => void
}

/** The stored template is read first, because lists have no entity tags. */
function EditOne({ id, ...props }: EditProps & { id: number | undefined }) {
  const read = useQuery({ ...instanceQuery(`${props.path}${id}/`), enabled: id !== undefined })
  if (id === undefined || read.data) return <Edit {...props} read={read.data} />
  if (read.failureCount === 0) return null
  return (
    <Dialog title={t('edit')} isOpen onClose={props.onDone}>
      <Reading of={[read]} />
    </Dialog>
  )
}

function Edit({ path, schema, read, onDone }: EditProps & { read: Read | undefined }) {
  const fields = ASKED.flatMap((alias) => schema.find((field) => field.alias === alias) ?? [])
  const { base, values, setValues, merged, question, settled } = useMerging(
    `${path}${read?.instance.id}/`,
    () => ({
      etag: null,
      instance: {},
      ...read,
      values: read ? editable(read.instance, fields) : { allow_on_demand_generation: true },
    }),
    (instance) => ({ instance, values: editable(instance, fields), fields }),
  )
  const template = read && base.instance
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const changes = changed(base.values, values)
  const save = async () => {
    setIsBusy(true)
    try {
      if (template) await call('PATCH', `${path}${template.id}/`, { body: changes, ifMatch: base.etag })
      else await call('POST', path, { body: values })
      say(t('saved'))
      await invalidate(path)
      onDone()
    } catch (refused) {
      if (template && refused instanceof Refusal && refused.status === 412) await merged().catch(setError)
      else setError(plain(refused))
      setIsBusy(false)
    }
  }
  useSettled(settled, () => void save())
  // Ids of stored files are numbers; the token of an upload is a text.
  const token: Json = values.template_file ?? null
  return (
    <>
      <FormDialog
        title={template ? `${template.name}` : t('create-one', { one: t('templates.one') })}
        fields={fields}
        sections={[]}
        values={values}
        instance={template}
        inputs={INPUTS}
        error={error}
        isBusy={isBusy}
        isChanged={Object.keys(changes).length > 0}
        submit={t('save')}
        onChange={(alias, value) => setValues((now) => ({ ...now, [alias]: value }))}
        onSubmit={() => void save()}
        onDone={onDone}
      >
        {typeof token === 'string' && <Report key={token} path={path} token={token} />}
      </FormDialog>
      {question}
    </>
  )
}
