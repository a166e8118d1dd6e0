"""Policies of revisits against each other in virtual time, on made-up pages whose change rates they have to learn."""
