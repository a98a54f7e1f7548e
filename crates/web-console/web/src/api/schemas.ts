// Made of openapi.json by crates/web-console/build. Not to be changed by hand.

export interface components {
    schemas: {
        AuthenticationObjectTest: {
            /** @enum {string} */
            status: "success" | "failure";
            msg: string;
        };
        BrowserToken: {
            access_token: string;
            /** @description Seconds until the access token ends */
            expires_in: number;
            password_change_required: boolean;
            second_factor_required: boolean;
            /** @description As `/api/users/me/`; null while the password must be changed */
            user: components["schemas"]["Me"] | null;
            /** @description As `/api/users/permissions/`; null while the password must be changed */
            permissions: components["schemas"]["OwnPermissions"] | null;
            /** @description The components that have a UI configuration; null while the password must be changed, or a second factor is lacking */
            ui_config: string[] | null;
            /** @description The domain of the build */
            build: string;
            /** @description That of the console's files; empty where the console is switched off */
            version: string;
        };
        CheckedMergeField: {
            /** @description As the tag has it */
            field: string;
            /** @description In which part it stands, such as `document` */
            place: string;
            /** @description The class whose field, or records, it names */
            object_class: number | null;
            is_known: boolean;
        };
        CompanyDetails: {
            admin_first_name: string;
            admin_last_name: string;
            admin_email_address: string;
            admin_phone_number: string;
            admin_job_title: string;
            admin_email_signature: string;
            _meta: {
                /** @description The permissions of the caller */
                permissions: {
                    edit: boolean;
                    view: boolean;
                };
            };
        };
        Counter: {
            count: number;
            limit: number;
        };
        CustomComponentUseCreate: {
            /** @example false */
            landing_page: boolean;
            /** @example false */
            object_class_create_form: boolean;
            /** @example false */
            object_class_summary_form: boolean;
            /** @example false */
            object_class_standalone_form: boolean;
            /** @example false */
            task_template_form: boolean;
        };
        DocumentTemplateCheck: {
            merge_fields: components["schemas"]["CheckedMergeField"][];
            /** @description Without any it may be a template */
            errors: string[];
        };
        EnabledSingleSignOn: {
            id: number;
            name: string;
        };
        ExportLink: {
            /** Format: uri */
            url: string;
        };
        FileLabel: {
            name: string;
            url: string;
            size: string;
            type: string;
        };
        GeneratedDocument: {
            id: number;
            /** @enum {string} */
            status: "processing" | "canceled" | "completed" | "field_updated" | "field_not_updated" | "failed";
            error_message: string;
            /** @description The id of the file */
            document: number | null;
            /** Format: date-time */
            generated_at: string | null;
            generated_by: components["schemas"]["UserReference"] | null;
            _meta: {
                labels: {
                    document?: components["schemas"]["FileLabel"];
                };
            };
        };
        GroupOfWay: {
            id: number | null;
            /** @description Null, as the id, if the caller may not view it */
            name: string | null;
        };
        Limits: {
            authentication_objects: components["schemas"]["Counter"];
            custom_components: components["schemas"]["Counter"];
            object_classes: components["schemas"]["Counter"];
            roles: components["schemas"]["Counter"];
            sequences: components["schemas"]["Counter"];
            single_sign_on_configurations: components["schemas"]["Counter"];
            task_group_templates: components["schemas"]["Counter"];
            task_templates: components["schemas"]["Counter"];
            user_groups: components["schemas"]["Counter"];
            additional_limits: {
                task_assignees_users: number;
                object_class_document_templates: number;
                object_class_fields: number;
                object_class_forms: number;
                object_class_owners: number;
                object_class_permission_sets: number;
                object_class_permission_set_assignees_users: number;
                object_class_permission_set_assignees_user_groups: number;
                object_record_owners: number;
                object_record_permission_set_assignees_users: number;
                object_record_permission_set_assignees_user_groups: number;
                object_records_per_object_class: number;
                object_relations_children: number;
                object_relations_depth: number;
                object_relations_top_parents: number;
                public_files: number;
                records_permission_sets: number;
                sequence_mails_per_day: number;
                sequence_runs_in_progress: number;
                sequence_steps: number;
                storage_gigabytes: number;
                task_assignees_user_groups: number;
                ui_configs: number;
                user_group_members: number;
                user_group_owners: number;
                user_group_permission_sets: number;
                user_preferences: number;
                users_group_permission_set_assignees_user_groups: number;
                users_group_permission_set_assignees_users: number;
            };
        };
        LoggedOut: {
            /** @description Address that ends the session at the provider */
            logout_url: string;
        };
        Me: {
            id: number;
            /** @example anna.berg@example.com */
            username: string;
            /**
             * @example internal
             * @enum {string}
             */
            account_type: "internal" | "external" | "full" | "one_time_completion" | "super_admin" | "service_internal" | "service_external";
            /** @example Anna */
            first_name: string;
            /** @example Berg */
            last_name: string;
            job_title: string;
            company_name: string;
            phone: string;
            mobile: string;
            roles: number[];
            timezone: string;
            is_ip_restriction_enabled: boolean;
            allowed_ip_ranges: string[];
            /** @enum {string} */
            status: "pending" | "invited" | "active" | "locked" | "inactive" | "anonymized";
            /** Format: date-time */
            activated_at: string | null;
            /** Format: date-time */
            password_set_at: string | null;
            /** Format: date-time */
            password_expires_at: string | null;
            /** Format: date-time */
            link_sent_at: string | null;
            link_sent_by: components["schemas"]["UserReference"] | null;
            next_actions: string[];
            /** Format: date-time */
            created_at: string;
            created_by: components["schemas"]["UserReference"] | null;
            /** Format: date-time */
            modified_at: string;
            modified_by: components["schemas"]["UserReference"] | null;
            _meta: {
                /** @description The permissions of the caller */
                permissions: {
                    list: boolean;
                    view: boolean;
                    create: boolean;
                    edit: boolean;
                    delete: boolean;
                };
                labels: {
                    roles: string[];
                };
                allowed_account_type_changes: string[];
                /** @description True if mails leave the server; false if they stay on its disk */
                is_mail_set_up: boolean;
            };
        };
        MessagePreview: {
            subject: string;
            text: string;
        };
        ObjectClassFormConfiguration: {
            configuration: unknown;
        };
        ObjectRecordAccess: {
            user: components["schemas"]["UserReference"];
            permissions: {
                object_records: {
                    view: boolean;
                    edit: boolean;
                    delete: boolean;
                    edit_owners: boolean;
                };
                tasks: {
                    create: boolean;
                    edit: boolean;
                    view: boolean;
                    delete: boolean;
                    complete: boolean;
                    assign: boolean;
                };
            };
            /** @description Sources of each action */
            ways: {
                resource: string;
                action: string;
                /** @enum {string} */
                source: "account_type" | "owner" | "class_owner" | "role" | "class_permission_set" | "record_permission_set";
                /** @description Of the role or set; null if the caller may not view it */
                id: number | null;
                /** @description Of the role or set, or the account type */
                name: string | null;
                user_group: components["schemas"]["GroupOfWay"] | null;
            }[];
        };
        OutboundMailSettings: {
            username: string;
            port: number;
            tls: boolean;
            host: string;
            from_email: string;
            failure_email: string;
            /** @enum {string} */
            authorization_method: "username_and_password" | "vendor_client_credentials";
            authentication_object: number | null;
        };
        OwnPermissions: {
            [key: string]: {
                [key: string]: boolean;
            };
        };
        Page: {
            /** @description Maximum number of results of the page */
            limit: number;
            /** @description Number of results before the page */
            offset: number;
            /** @description Number of all entries that the caller may list */
            total_count: number;
            /** @description Number of these entries that match the filters */
            filtered_count: number;
            /** @description The address of the next page */
            next: string | null;
            /** @description The address of the page before */
            previous: string | null;
        };
        ProviderAddress: {
            /** Format: uri */
            redirect_uri: string;
        };
        SearchResult: {
            /** @enum {string} */
            type: "user_group" | "object_record" | "user";
            id: number;
            label: string;
            /** @description The class of a record */
            object_class: number | null;
        };
        UserReference: {
            id: number;
            first_name: string;
            last_name: string;
            username: string;
            company_name: string;
            is_deleted: boolean;
            /** @enum {string} */
            account_type: "internal" | "external" | "full" | "one_time_completion" | "super_admin" | "service_internal" | "service_external";
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
